// The training loop of one process.
#include "train/loop.h"

#include <doctest/doctest.h>

#include <cmath>
#include <csignal>
#include <sstream>

#include "checkpoint/safetensors.h"
#include "checkpoint/store.h"
#include "support.h"
#include "support/skip.h"
#include "train/state.h"

namespace trainer::train {
namespace {

using namespace support;

std::string catch_error(const std::function<void()>& run, int& code) {
  try {
    run();
  } catch (const Error& error) {
    code = error.code();
    return error.what();
  }
  code = 0;
  return "";
}

void check_contains(const std::string& text, const std::string& part) {
  CAPTURE(text);
  CHECK(text.find(part) != std::string::npos);
}

// Sets one number of a variable.
void write_number(engine::Engine& engine, const std::string& name, float number) {
  for (checkpoint::Tensor& tensor : engine.replica().tensors()) {
    if (tensor.name != name) continue;
    tensor.values[0] = number;
    engine.write({tensor});
    return;
  }
  FAIL("no variable " << name);
}

std::int64_t newest_step(const Trial& trial) {
  std::vector<std::string> warnings;
  checkpoint::Store store(checkpoint_folder(trial.folder.path() / "run"), 5);
  return store.list().back().step;
}

}  // namespace

TEST_CASE("train: hooks get a step, then its evaluation, then its checkpoint, and all at the end") {
  Trial trial(run_config("run: {evaluate_every: 3 steps, checkpoint_every: 2 steps}\n"));
  trial.add_split(Split::kValidation);
  trial.add_split(Split::kTest);
  const hooks::Finish finish = trial.run();
  CHECK(trial.events == Events{"start 0", "save 0", "step 1", "step 2", "save 2", "step 3",
                               "validation 3", "step 4", "save 4", "step 5", "step 6", "save 6",
                               "validation 6", "test 6", "finish done"});
  CHECK(finish.steps == 6);
  REQUIRE(finish.evaluations.size() == 2);
  CHECK(finish.evaluations[0].split == Split::kValidation);
  CHECK(finish.evaluations[1].metrics.count == 6);
}

TEST_CASE("train: the test split is evaluated when due and at the end without a validation split") {
  Trial trial(run_config("run: {evaluate_every: 4 steps, checkpoint_every: 1000 steps}\n"));
  trial.add_split(Split::kTest);
  SUBCASE("again after more steps") {
    trial.run();
    CHECK(trial.events == Events{"start 0", "save 0", "step 1", "step 2", "step 3", "step 4",
                                 "test 4", "step 5", "step 6", "test 6", "save 6", "finish done"});
  }
  SUBCASE("not again when nothing was trained since") {
    trial.at_step = [](std::int64_t step) {
      return step == 4 ? Request::kStop : Request::kContinue;
    };
    trial.run();
    CHECK(trial.events == Events{"start 0", "save 0", "step 1", "step 2", "step 3", "step 4",
                                 "test 4", "save 4", "finish early stop"});
  }
}

namespace {

// Stops a run at step 2, also one that is resumed there.
class StoppingHook final : public hooks::Hook {
 public:
  std::string name() const override { return "stopping"; }
  Request on_step(const hooks::StepRecord& progress) override {
    has_stopped_ = progress.step == 2;
    return has_stopped_ ? Request::kStop : Request::kContinue;
  }
  bool has_stopped() const override { return has_stopped_; }
  std::string save() const override { return has_stopped_ ? "stop" : ""; }
  void restore(const std::string& text) override { has_stopped_ = text == "stop"; }

 private:
  bool has_stopped_ = false;
};

}  // namespace

TEST_CASE("train: a request of a hook is done after the step") {
  Trial trial(run_config());
  SUBCASE("save") {
    trial.at_step = [](std::int64_t step) {
      return step == 2 ? Request::kSave : Request::kContinue;
    };
    CHECK(trial.run().reason == FinishReason::kDone);
    CHECK(trial.events == Events{"start 0", "save 0", "step 1", "step 2", "save 2", "step 3",
                                 "step 4", "step 5", "step 6", "save 6", "finish done"});
  }
  SUBCASE("stop; a resumed run stays stopped where the config has early_stop") {
    trial.make_hook = [] { return std::make_unique<StoppingHook>(); };
    trial.config.train.early_stop = config::EarlyStop{};
    CHECK(trial.run().reason == FinishReason::kEarlyStop);
    CHECK(trial.events ==
          Events{"start 0", "save 0", "step 1", "step 2", "save 2", "finish early stop"});
    trial.events.clear();
    CHECK(trial.run(Start::kResume).reason == FinishReason::kEarlyStop);
    CHECK(trial.events == Events{"start 2", "finish early stop"});
    trial.events.clear();
    trial.config.train.early_stop.reset();
    trial.make_hook = {};
    CHECK(trial.run(Start::kResume).reason == FinishReason::kDone);
    CHECK(trial.events.back() == "finish done");
    CHECK(newest_step(trial) == 6);
  }
}

TEST_CASE("train: a signal ends the run with a checkpoint of the step and no evaluation") {
  Trial trial(run_config());
  trial.add_split(Split::kValidation);
  trial.at_step = [](std::int64_t step) {
    if (step == 3) std::raise(SIGUSR1);
    return Request::kContinue;
  };
  CHECK(trial.run().reason == FinishReason::kInterrupted);
  CHECK(trial.events ==
        Events{"start 0", "save 0", "step 1", "step 2", "step 3", "save 3", "finish interrupted"});
  trial.events.clear();
  trial.at_step = {};
  CHECK(trial.run(Start::kResume).reason == FinishReason::kDone);
  CHECK(trial.events ==
        Events{"start 3", "step 4", "step 5", "step 6", "validation 6", "save 6", "finish done"});
  trial.events.clear();
  CHECK(trial.run(Start::kResume).reason == FinishReason::kAlreadyDone);
  CHECK(trial.events == Events{"start 6", "validation 6", "finish already done"});
}

TEST_CASE("train does not evaluate a run again whose record has its end") {
  Trial trial(run_config());
  trial.add_split(Split::kValidation);
  CHECK(trial.run().reason == FinishReason::kDone);
  const Path record = trial.folder.path() / "run" / "run.json";
  for (const auto& [text, events] :
       {std::pair{R"({"finished": {"steps": 6}})", Events{"start 6", "finish already done"}},
        {R"({"finished": {"steps": 5}})", Events{"start 6", "validation 6", "finish already done"}},
        {"damaged", Events{"start 6", "validation 6", "finish already done"}}}) {
    write_file_atomic(record, std::string_view(text));
    trial.events.clear();
    CHECK(trial.run(Start::kResume).reason == FinishReason::kAlreadyDone);
    CHECK(trial.events == events);
  }
  // A tracking server may lack the last evaluation.
  write_file_atomic(record, std::string_view(R"({"finished": {"steps": 6}})"));
  trial.config.run.mlflow = "http://localhost:1";
  trial.events.clear();
  CHECK(trial.run(Start::kResume).reason == FinishReason::kAlreadyDone);
  CHECK(trial.events == Events{"start 6", "validation 6", "finish already done"});
}

TEST_CASE("train: the resumed run repeats the evaluation after a signal during it") {
  Trial trial(run_config("run: {evaluate_every: 3 steps, checkpoint_every: 1000 steps}\n"));
  trial.add_split(Split::kValidation);
  trial.at_step = [](std::int64_t step) {
    if (step == 3) std::raise(SIGTERM);
    return Request::kContinue;
  };
  CHECK(trial.run().reason == FinishReason::kInterrupted);
  trial.at_step = {};
  trial.events.clear();
  trial.validation().signals_when_read = true;
  CHECK(trial.run(Start::kResume).reason == FinishReason::kInterrupted);
  CHECK(trial.events == Events{"start 3", "finish interrupted"});
  trial.events.clear();
  trial.validation().signals_when_read = false;
  CHECK(trial.run(Start::kResume).reason == FinishReason::kDone);
  CHECK(trial.events == Events{"start 3", "validation 3", "save 3", "step 4", "step 5", "step 6",
                               "validation 6", "save 6", "finish done"});
}

TEST_CASE(
    "train: metrics.csv of a run resumed after a signal at any step has the rows of a whole run") {
  // Returns the rows without the columns of times.
  const auto read_rows = [](const Trial& trial) {
    std::istringstream file(read_text_file(trial.folder.path() / "run" / "metrics.csv"));
    std::vector<std::string> rows;
    for (std::string line; std::getline(file, line);) {
      std::vector<std::string> fields = split_text(line, ',');
      fields.resize(6);
      rows.push_back(join(fields, ","));
    }
    return rows;
  };
  const config::Duration every_fourth{4, config::Duration::Unit::kSteps};
  // Evaluations after every third step need rows of training between those of every fourth step.
  const auto make_trial = [&](std::unique_ptr<Trial>& trial) {
    trial = std::make_unique<Trial>(
        run_config("run: {evaluate_every: 3 steps, checkpoint_every: 2 steps}\n"));
    trial->config.train.epochs = 2;
    trial->add_split(Split::kValidation);
    trial->make_hook = [&] { return hooks::make_metrics_files_hook(every_fourth); };
  };
  std::unique_ptr<Trial> whole, killed;
  make_trial(whole);
  REQUIRE(whole->run().reason == FinishReason::kDone);
  const std::vector<std::string> wanted = read_rows(*whole);
  for (std::int64_t at = 1; at <= 12; ++at) {
    CAPTURE(at);
    make_trial(killed);
    killed->at_step = [&](std::int64_t step) {
      if (step == at) std::raise(SIGTERM);
      return Request::kContinue;
    };
    killed->run();
    killed->at_step = {};
    killed->run(Start::kResume);
    CHECK(read_rows(*killed) == wanted);
  }
}

TEST_CASE("train: a run that is stopped and resumed equals an uninterrupted run bit by bit") {
  const std::string accumulate =
      "optimizer: {adam: {learning_rate: 0.01}, accumulate: 2, ema: 0.9}\n";
  for (const std::int64_t at : {1, 3, 5}) {
    CAPTURE(at);
    config::Config config = run_config("", kBatchNorm);
    config.optimizer = trainer::test::build_config(kDense, accumulate).optimizer;
    config.train.epochs = 2;
    Trial whole(config), parts(config);
    const std::string wanted = whole.run().parameters_sha256;
    parts.at_step = [&](std::int64_t step) {
      return step == at ? Request::kStop : Request::kContinue;
    };
    CHECK(parts.run().parameters_sha256 != wanted);
    parts.at_step = {};
    const hooks::Finish finish = parts.run(Start::kResume);
    CHECK(finish.reason == FinishReason::kDone);
    CHECK(finish.steps == 6);
    CHECK(finish.parameters_sha256 == wanted);
  }
}

TEST_CASE("train: drop_remainder gives epochs of whole batches and a resume in any epoch") {
  config::Config config = run_config("", kBatchNorm);
  config.train.epochs = 3;
  config.data.drop_remainder = true;
  Trial whole(config, 26);  // 6 * 4 + 2
  const hooks::Finish finish = whole.run();
  CHECK(finish.steps == 18);
  CHECK(whole.count("step 18") == 1);
  config::Config kept = config;
  kept.data.drop_remainder = false;
  Trial all(kept, 26);
  CHECK(all.run().steps == 21);
  for (std::size_t step = 0; step < 18; ++step) {
    CHECK(whole.sample_ids[step] == all.sample_ids[step + step / 6]);
  }
  for (const std::int64_t at : {5, 6, 7, 14}) {
    CAPTURE(at);
    Trial parts(config, 26);
    parts.at_step = [&](std::int64_t step) {
      return step == at ? Request::kStop : Request::kContinue;
    };
    parts.run();
    parts.at_step = {};
    CHECK(parts.run(Start::kResume).parameters_sha256 == finish.parameters_sha256);
    CHECK(parts.sample_ids == whole.sample_ids);
  }
  int code = 0;
  whole.config.data.drop_remainder = false;
  check_contains(catch_error([&] { whole.run(Start::kResume); }, code),
                 "data.drop_remainder was true");
  CHECK(code == kExitData);
}

TEST_CASE("train: a resumed float16 run continues with its loss scale") {
  if (!trainer::test::uses_gpus()) TRAINER_SKIP("only GPUs have float16");
  config::Config config = run_config();
  config.train.precision = config::Precision::kFloat16;
  config.train.epochs = 4;
  Trial whole(config), parts(config);
  // Updates are left out from the third step on, until halving has brought the scale down.
  const auto raise_scale = [](Trial& trial, std::int64_t stop) {
    trial.at_step = [&trial, stop](std::int64_t step) {
      if (step == 1) trial.running->set_loss_scale({.value = 0x1p+24f, .good_updates = 0});
      return step == stop ? Request::kStop : Request::kContinue;
    };
  };
  raise_scale(whole, 0);
  raise_scale(parts, 4);
  const hooks::Finish expected = whole.run();
  const std::int64_t skipped_before = parts.run().skipped_updates;
  CHECK(skipped_before > 0);
  CHECK(skipped_before < expected.skipped_updates);
  const hooks::Finish finish = parts.run(Start::kResume);
  CHECK(finish.steps == expected.steps);
  CHECK(skipped_before + finish.skipped_updates == expected.skipped_updates);
  CHECK(finish.parameters_sha256 == expected.parameters_sha256);
}

TEST_CASE("train: intervals in seconds are measured by the given clock") {
  Trial trial(run_config("run: {evaluate_every: 25 seconds, checkpoint_every: 40 seconds}\n"));
  trial.add_split(Split::kValidation);
  trial.at_step = [&](std::int64_t) {
    trial.seconds += 10;
    return Request::kContinue;
  };
  const hooks::Finish finish = trial.run();
  // The clock shows 10 (n - 1) seconds when step n has ended.
  CHECK(trial.events == Events{"start 0", "save 0", "step 1", "step 2", "step 3", "step 4",
                               "validation 4", "step 5", "save 5", "step 6", "validation 6",
                               "save 6", "finish done"});
  CHECK(finish.wall_seconds == 60);
}

TEST_CASE("train: unreadable data leave the steps before saved, and the error names the sample") {
  Trial trial(run_config());
  trial.config.data.shuffle = false;
  trial.train->unreadable_samples = {13};  // step 4
  int code = 0;
  const std::string error = catch_error([&] { trial.run(); }, code);
  CHECK(code == kExitData);
  check_contains(error, "sample 13 cannot be read");
  check_contains(error, "Stopped after step 3, saved as ");
  check_contains(error, "go on with --resume");
  CHECK(trial.events == Events{"start 0", "save 0", "step 1", "step 2", "step 3", "save 3"});
  Trial whole(trial.config);
  trial.train->unreadable_samples.clear();
  CHECK(trial.run(Start::kResume).parameters_sha256 == whole.run().parameters_sha256);
}

TEST_CASE(
    "train: a resume after a bad sample in the middle of a step equals a whole run bit by bit") {
  config::Config config = run_config("", kBatchNorm);
  config.optimizer.accumulate = 3;
  config.data.shuffle = false;
  Trial trial(config), whole(config);
  SUBCASE("it cannot be read") { trial.train->unreadable_samples = {20}; }
  SUBCASE("it is not finite") { trial.train->infinite_samples = {20}; }
  int code = 0;  // 20 is in the third batch of step 2
  check_contains(catch_error([&] { trial.run(); }, code), "Stopped after step 1");
  CHECK(code == kExitData);
  trial.train->unreadable_samples.clear();
  trial.train->infinite_samples.clear();
  CHECK(trial.run(Start::kResume).parameters_sha256 == whole.run().parameters_sha256);
}

TEST_CASE("train: an unreadable validation split ends the run after its step") {
  Trial trial(run_config("run: {evaluate_every: 2 steps, checkpoint_every: 1000 steps}\n"));
  trial.add_split(Split::kValidation);
  trial.validation().unreadable_samples = {5};
  int code = 0;
  check_contains(catch_error([&] { trial.run(); }, code), "Stopped after step 2");
  CHECK(code == kExitData);
  CHECK(newest_step(trial) == 2);
}

TEST_CASE(
    "train: a loss that is not finite is an error with layer, step and rate, and nothing is "
    "saved") {
  Trial trial(run_config());
  trial.at_step = [&](std::int64_t step) {
    if (step == 2) write_number(*trial.running, "dense/kernel", HUGE_VALF);
    return Request::kContinue;
  };
  int code = 0;
  const std::string error = catch_error([&] { trial.run(); }, code);
  CHECK(code == kExitCheck);
  check_contains(error,
                 "the loss is not finite at step 3 (epoch 1, learning rate 0.1): first seen in");
  check_contains(error, "dense/kernel");
  check_contains(error, "Last good checkpoint: ");
  CHECK(trial.events == Events{"start 0", "save 0", "step 1", "step 2"});
  CHECK(newest_step(trial) == 0);
}

TEST_CASE("train: a loss that is not finite because of the data has exit code 3") {
  Trial trial(run_config());
  trial.config.data.shuffle = false;
  trial.train->infinite_samples = {9};  // step 3
  int code = 0;
  const std::string error = catch_error([&] { trial.run(); }, code);
  CHECK(code == kExitData);
  check_contains(error, "Stopped after step 2");
  CHECK(newest_step(trial) == 2);
}

TEST_CASE("train: an update that is not finite is an error with the variable, step and sample") {
  if (test::test_backend_name() != "cpu") TRAINER_SKIP("other backends keep a NaN");
  Trial trial(run_config(
      "", "{layers: [conv: {filters: 2, activation: relu}, flatten, dense: {units: 2}]}"));
  trial.config.data.shuffle = false;
  trial.train->infinite_samples = {9};  // step 3
  trial.train->not_finite = NAN;  // of which oneDNN's relu makes 0, so that the loss is finite
  int code = 0;
  const std::string error = catch_error([&] { trial.run(); }, code);
  CHECK(code == kExitData);
  check_contains(
      error,
      "the update is not finite at step 3 (epoch 1, learning rate 0.1), although the "
      "loss is finite: first seen in variable conv2d/kernel. The cause is in the data: ");
  check_contains(error, "sample 9 (from 0) holds NaN or infinity. Last good checkpoint: ");
  CHECK(trial.events == Events{"start 0", "save 0", "step 1", "step 2"});
  CHECK(newest_step(trial) == 0);
}

TEST_CASE("train: a moving statistic that is not finite is an error with its name") {
  if (test::test_backend_name() != "cpu") TRAINER_SKIP("other backends keep a NaN");
  for (const std::int64_t replicas : {1, 2}) {
    Trial trial(run_config("", kBatchNorm));
    trial.config.parallel.replicas = replicas;
    trial.at_step = [&](std::int64_t step) {
      if (step == 2) write_number(*trial.running, "batch_normalization/moving_variance", HUGE_VALF);
      return Request::kContinue;
    };
    int code = 0;
    const std::string error = catch_error([&] { trial.run(); }, code);
    CHECK(code == kExitCheck);
    check_contains(error, "the update is not finite at step 3 ");
    check_contains(error, "first seen in variable batch_normalization/moving_variance. Last good");
  }
}

TEST_CASE("train: the last good checkpoint stays when variables are not finite") {
  Trial trial(run_config("run: {checkpoint_every: 2 steps, evaluate_every: 1000 steps}\n"));
  trial.at_step = [&](std::int64_t step) {
    if (step == 4) write_number(*trial.running, "dense/bias", NAN);
    return Request::kContinue;
  };
  int code = 0;
  const std::string error = catch_error([&] { trial.run(); }, code);
  CHECK(code == kExitCheck);
  check_contains(error, "variable dense/bias is not finite after step 4 (learning rate 0.1)");
  CHECK(newest_step(trial) == 2);
}

TEST_CASE("run.best: the best checkpoint is chosen by this metric") {
  Trial trial(run_config(
      "run: {evaluate_every: 1 steps, checkpoint_every: 1000 steps, best: validation/loss}\n"));
  trial.add_split(Split::kValidation);
  trial.at_step = [&](std::int64_t step) {
    if (step == 3) write_number(*trial.running, "dense/bias", 50);  // as bad as can be
    return Request::kContinue;
  };
  trial.run();
  CHECK(trial.count("save 1") == 1);
  CHECK(trial.count("save 3") == 0);
  CHECK(std::filesystem::exists(trial.folder.path() / "run" / "checkpoints" / "best.safetensors"));
}

TEST_CASE("restore_best: the run ends with the parameters of the best evaluation") {
  Trial trial(run_config(
      "run: {evaluate_every: 1 steps, checkpoint_every: 1000 steps, best: validation/loss}\n"));
  trial.config.train.early_stop = config::EarlyStop{"validation/loss", 2, 0, true, {}};
  trial.add_split(Split::kValidation);
  std::vector<checkpoint::Tensor> best;
  trial.at_step = [&](std::int64_t step) {
    if (step == 2) best = trial.running->replica().tensors();
    if (step == 3) write_number(*trial.running, "dense/bias", 50);  // as bad as can be
    return Request::kContinue;
  };
  const hooks::Finish finish = trial.run();
  REQUIRE(finish.best);
  CHECK(finish.best->step == 2);
  CHECK(finish.best->restored);
  CHECK(finish.evaluations[0].metrics.loss == finish.best->value);
  const Path folder = trial.folder.path() / "run" / "checkpoints";
  const auto last = checkpoint::read_safetensors(checkpoint::list_checkpoints(folder).back().path);
  CHECK(read_step(last.metadata, "") == finish.steps);
  CHECK(finish.steps > 2);
  for (const checkpoint::Tensor& tensor : last.tensors) {
    const auto same = std::find_if(best.begin(), best.end(), [&](const checkpoint::Tensor& each) {
      return each.name == tensor.name;
    });
    REQUIRE(same != best.end());
    const bool is_slot = tensor.name.ends_with("/momentum");
    CHECK_MESSAGE((tensor.values == same->values) != is_slot, tensor.name);
  }
  // There is nothing more to restore.
  const std::string sha = finish.parameters_sha256;
  CHECK(trial.run(Start::kResume).parameters_sha256 == sha);
}

TEST_CASE("train: the rate falls by reduce_on_plateau, also in a resumed run") {
  const auto read_rates = [&](std::int64_t stop_after) {
    Trial trial(run_config("run: {evaluate_every: 1 steps, checkpoint_every: 1 steps}\n"));
    trial.config.train.epochs = 2;
    // An improvement by 1 never comes.
    trial.config.schedule.kind =
        config::ReduceOnPlateauSchedule{"validation/accuracy", 0.5, 2, 1, 0, 0};
    trial.add_split(Split::kValidation);
    trial.at_step = [&](std::int64_t step) {
      return step == stop_after ? Request::kStop : Request::kContinue;
    };
    trial.run();
    if (stop_after > 0) trial.run(Start::kResume);
    return trial.rates;
  };
  const std::vector<double> rates = read_rates(0);
  // Evaluated after every step: the first is the best, then two are waited for.
  const std::vector<double> expected{0.1,   0.1,    0.1,    0.05,    0.05,    0.025,
                                     0.025, 0.0125, 0.0125, 0.00625, 0.00625, 0.003125};
  REQUIRE(rates.size() == expected.size());
  for (std::size_t i = 0; i < rates.size(); ++i) {
    CHECK(rates[i] == doctest::Approx(expected[i]).epsilon(1e-6));
  }
  CHECK(read_rates(5) == rates);
}

TEST_CASE("train: a resume with another seed has exit code 3") {
  Trial trial(run_config());
  trial.run();
  int code = 0;
  trial.config.seed = 99;
  const std::string error = catch_error([&] { trial.run(Start::kResume); }, code);
  CHECK(code == kExitData);
  check_contains(error, "seed was");
}

}  // namespace trainer::train
