// The training loop of two workers in step, each a thread with an engine of its own; they meet on
// loopback.
#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <csignal>
#include <thread>

#include "checkpoint/store.h"
#include "cluster/transport/socket.h"
#include "support.h"
#include "support/skip.h"
#include "train/process_group.h"

namespace trainer::train {
namespace {

using namespace support;

struct Ended {
  hooks::Finish finish;
  std::string error;
  int code = 0;
};

// Both ranks, of which the first is the chief. Trials are given by rank.
struct Workers {
  explicit Workers(const config::Config& config, std::int64_t samples = 24)
      : trials{Trial(config, samples), Trial(config, samples)} {}

  std::array<Ended, 2> run(Start start = Start::kFresh) {
    const cluster::ReservedPort port;
    std::array<Ended, 2> ended;
    const auto work = [&](int rank) {
      Ended& own = ended[static_cast<std::size_t>(rank)];
      try {
        own.finish = run_rank(rank, port.number(), start);
      } catch (const Error& error) {
        own.error = error.what();
        own.code = error.code();
      }
    };
    std::thread other(work, 1);
    work(0);
    other.join();
    return ended;
  }

  std::array<Trial, 2> trials;

 private:
  hooks::Finish run_rank(int rank, int port, Start start) {
    Trial& trial = trials[static_cast<std::size_t>(rank)];
    cluster::Identity who;
    who.rank = who.index = rank;
    who.size = 2;
    who.role = rank == 0 ? cluster::Role::kChief : cluster::Role::kWorker;
    who.master = {"127.0.0.1", port};
    who.source = "--rank";
    ProcessGroup group(who, trial.config, {}, [](const std::string&) {});
    try {
      return trial.run(group, start);
    } catch (const std::exception& error) {
      group.fail(error);
      throw;
    }
  }
};

// A batch of two samples for each of two workers, as of four for one process.
config::Config worker_config(const std::string& rest = "", const std::string& model = kDense) {
  config::Config config = run_config(rest, model);
  config.train.batch_size = 2;
  config.parallel.lr_scaling = config::Parallel::LrScaling::kNone;
  config.parallel.timeout = {20, config::Duration::Unit::kSeconds};
  return config;
}

}  // namespace

TEST_CASE("workers: one checkpoint and one set of hooks exist, and both have the same variables") {
  Workers workers(worker_config("run: {evaluate_every: 3 steps, checkpoint_every: 2 steps}\n"));
  for (Trial& trial : workers.trials) trial.add_split(Split::kValidation);
  const auto ended = workers.run();
  CHECK(ended[0].error == "");
  CHECK(ended[1].error == "");
  CHECK(workers.trials[0].events == Events{"start 0", "save 0", "step 1", "step 2", "save 2",
                                           "step 3", "validation 3", "step 4", "save 4", "step 5",
                                           "step 6", "save 6", "validation 6", "finish done"});
  CHECK(workers.trials[1].events.empty());
  CHECK(ended[0].finish.parameters_sha256 == ended[1].finish.parameters_sha256);
  REQUIRE(ended[1].finish.evaluations.size() == 1);
  CHECK(ended[0].finish.evaluations[0].metrics.loss == ended[1].finish.evaluations[0].metrics.loss);
}

TEST_CASE("workers: metrics, reduced rates and restored parameters are the same on both") {
  config::Config config = worker_config(
      "run: {evaluate_every: 1 steps, checkpoint_every: 1000 steps, best: validation/auc}\n");
  config.train.epochs = 2;
  config.train.early_stop = config::EarlyStop{"validation/auc", 100, 0, true, {}};
  config.schedule.kind = config::ReduceOnPlateauSchedule{"validation/f1_macro", 0.5, 1, 1, 0, 0};
  SUBCASE("both evaluate") {}
  SUBCASE("the chief evaluates alone") { config.parallel.evaluate = false; }
  Workers workers(config);
  for (Trial& trial : workers.trials) trial.add_split(Split::kValidation, 7);
  const auto ended = workers.run();
  CHECK(ended[0].error == "");
  CHECK(ended[1].error == "");
  CHECK(ended[0].finish.parameters_sha256 == ended[1].finish.parameters_sha256);
  const auto take_metrics = [](const hooks::Finish& finish) {
    return engine::named_metrics(finish.evaluations.at(0).metrics);
  };
  CHECK(take_metrics(ended[0].finish) == take_metrics(ended[1].finish));
  CHECK(take_metrics(ended[0].finish).size() == 6);
  REQUIRE(ended[0].finish.best);
  CHECK(take_metrics(ended[0].finish).back().second == ended[0].finish.best->value);
  CHECK(workers.trials[0].rates.back() < 0.01);
  // One process has the same global batch.
  config.train.batch_size = 4;
  Trial alone(config);
  alone.add_split(Split::kValidation, 7);
  const hooks::Finish one = alone.run();
  CHECK(alone.rates == workers.trials[0].rates);
  CHECK(one.best->step == ended[0].finish.best->step);
  CHECK(one.best->value == ended[0].finish.best->value);
}

TEST_CASE("workers: with ordered sums they end equal to one process bit by bit") {
  config::Config config =
      worker_config("", "{layers: [conv: {filters: 2}, flatten, dense: {units: 2}]}");
  config.parallel.reduction = config::Parallel::Reduction::kOrdered;
  Workers workers(config);
  config.train.batch_size = 4;
  Trial alone(config);
  CHECK(workers.run()[0].finish.parameters_sha256 == alone.run().parameters_sha256);
}

TEST_CASE("workers: the hash of the samples of a step is that of one process") {
  Trial alone(run_config());
  alone.run();
  REQUIRE(alone.sample_ids.size() == 6);
  CHECK(std::set(alone.sample_ids.begin(), alone.sample_ids.end()).size() == 6);
  Workers workers(worker_config());
  const auto ended = workers.run();
  CHECK(ended[0].error == "");
  CHECK(workers.trials[0].sample_ids == alone.sample_ids);
  // Two accumulated batches of half the size are the same step.
  config::Config parts = run_config();
  parts.train.batch_size = 2;
  parts.optimizer.accumulate = 2;
  Trial accumulated(parts);
  accumulated.run();
  CHECK(accumulated.sample_ids == alone.sample_ids);
  // The batches of an epoch whose last one would be short.
  config::Config drops = worker_config();
  drops.data.drop_remainder = true;
  Trial dropped(drops, 27);
  dropped.config.train.batch_size = 4;
  dropped.run();
  CHECK(dropped.sample_ids.size() == 6);
  Workers dropping(drops, 27);
  CHECK(dropping.run()[0].error == "");
  CHECK(dropping.trials[0].sample_ids == dropped.sample_ids);
  // Another seed changes the order.
  config::Config other = run_config();
  other.seed = 7;
  Trial shuffled(other);
  shuffled.run();
  CHECK(shuffled.sample_ids != alone.sample_ids);
}

TEST_CASE("workers: the chief has the phase times of every rank and the straggler") {
  Workers workers(worker_config());
  Trial& slow = workers.trials[1];
  // On its own clock, which goes on with nothing else.
  slow.train->when_read = [&slow] { slow.seconds += 1000; };
  const auto ended = workers.run();
  CHECK(ended[0].error == "");
  const engine::StepTimes& times = ended[0].finish.times;
  REQUIRE(times.ranks() == 2);
  CHECK(times.steps() == 6);
  // Two samples per step. What else a rank has is real time.
  CHECK(times.mean_times(1).own() == doctest::Approx(2000).epsilon(0.01));
  CHECK(times.mean_times(0).own() < 1000);
  const auto straggler = times.straggler();
  REQUIRE(straggler);
  CHECK(straggler->rank == 1);
  CHECK(straggler->phase == engine::StepPhase::kOther);
  CHECK(workers.trials[0].ranks[1].starts_with("rank 1 (worker 1 on host "));
}

TEST_CASE("workers: a request of a hook of the chief is done by both after the next step") {
  Workers workers(worker_config());
  workers.trials[0].at_step = [](std::int64_t step) {
    return step == 2 ? Request::kSave : step == 4 ? Request::kStop : Request::kContinue;
  };
  const auto ended = workers.run();
  CHECK(workers.trials[0].events == Events{"start 0", "save 0", "step 1", "step 2", "step 3",
                                           "save 3", "step 4", "step 5", "save 5",
                                           "finish early stop"});
  CHECK(ended[1].finish.reason == FinishReason::kEarlyStop);
  CHECK(ended[1].finish.steps == 5);
}

TEST_CASE("workers: a signal ends both after the same step") {
  Workers workers(worker_config());
  workers.trials[0].at_step = [](std::int64_t step) {
    if (step == 2) std::raise(SIGUSR1);
    return Request::kContinue;
  };
  const auto ended = workers.run();
  for (const Ended& one : ended) {
    CHECK(one.error == "");
    CHECK(one.finish.reason == FinishReason::kInterrupted);
    CHECK(one.finish.steps == ended[0].finish.steps);
  }
  CHECK(ended[0].finish.steps <= 4);
}

TEST_CASE("workers: a signal during an evaluation ends both before the next step") {
  Workers workers(worker_config("run: {evaluate_every: 3 steps, checkpoint_every: 1000 steps}\n"));
  for (Trial& trial : workers.trials) trial.add_split(Split::kValidation);
  workers.trials[1].validation().signals_when_read = true;
  const auto ended = workers.run();
  CHECK(workers.trials[0].events ==
        Events{"start 0", "save 0", "step 1", "step 2", "step 3", "save 3", "finish interrupted"});
  CHECK(ended[1].finish.reason == FinishReason::kInterrupted);
  CHECK(ended[1].finish.steps == 3);
}

TEST_CASE("workers: a resume continues both from the chief's checkpoint") {
  config::Config config = worker_config("", kBatchNorm);
  config.train.epochs = 2;
  Workers whole(config), parts(config);
  parts.trials[0].at_step = [](std::int64_t step) {
    return step == 6 ? Request::kStop : Request::kContinue;
  };
  const std::string wanted = whole.run()[0].finish.parameters_sha256;
  CHECK(parts.run()[1].finish.steps == 7);
  parts.trials[0].at_step = {};
  const auto ended = parts.run(Start::kResume);
  CHECK(parts.trials[0].events[parts.trials[0].events.size() - 1] == "finish done");
  CHECK(ended[0].finish.parameters_sha256 == wanted);
  CHECK(ended[1].finish.parameters_sha256 == wanted);
}

TEST_CASE("workers: a resume gives both the loss scale of the chief's checkpoint") {
  if (!trainer::test::uses_gpus()) TRAINER_SKIP("only GPUs have float16");
  config::Config config = worker_config();
  config.train.precision = config::Precision::kFloat16;
  Workers workers(config);
  CHECK(workers.run()[0].error == "");
  {
    checkpoint::Store store(checkpoint_folder(workers.trials[0].folder.path() / "run"), 1);
    std::vector<std::string> warnings;
    auto file = store.load_latest(warnings);
    REQUIRE(file);
    CHECK(file->metadata.at("loss_scale_good_updates") == "6");
    file->metadata["loss_scale"] = "1048576";
    store.save(6, file->tensors, file->metadata);
  }
  for (Trial& trial : workers.trials) trial.config.train.epochs = 3;
  const auto ended = workers.run(Start::kResume);
  // With scales of their own the workers would end with variables of their own, which the
  // checkpoint at the end rejects.
  CHECK(ended[0].error == "");
  CHECK(ended[1].error == "");
  CHECK(ended[0].finish.steps == 18);
  CHECK(ended[0].finish.skipped_updates > 0);
  CHECK(ended[0].finish.parameters_sha256 == ended[1].finish.parameters_sha256);
}

TEST_CASE(
    "workers: the error of one that cannot read its data has the reason, and its steps are saved") {
  for (const int rank : {0, 1}) {
    for (const std::int64_t sample : {std::int64_t{0}, std::int64_t{12}}) {  // of steps 1 and 4
      CAPTURE(rank);
      CAPTURE(sample);
      config::Config config = worker_config();
      config.data.shuffle = false;
      Workers workers(config);
      // Rank r reads samples 4 n + 2 r and the next.
      const auto r = static_cast<std::size_t>(rank);
      workers.trials[r].train->unreadable_samples = {sample + 2 * rank};
      const auto ended = workers.run();
      const std::int64_t step = sample / 4;
      CHECK(ended[r].code == kExitData);
      CHECK(ended[r].error.find(concat("Stopped after step ", step)) != std::string::npos);
      CHECK(ended[1 - r].error.find("cannot be read") != std::string::npos);
      CHECK(workers.trials[0].events.back() == concat("save ", step));
    }
  }
}

TEST_CASE("workers: a loss that is not finite ends both") {
  Workers workers(worker_config());
  workers.trials[0].at_step = [&](std::int64_t step) {
    if (step != 2) return Request::kContinue;
    for (checkpoint::Tensor& tensor : workers.trials[0].running->replica().tensors()) {
      if (tensor.name != "dense/bias") continue;
      tensor.values[0] = NAN;
      workers.trials[0].running->write({tensor});
    }
    return Request::kContinue;
  };
  const auto ended = workers.run();
  // The first to notice reports what it is, and the other reports that or that its peer has failed.
  for (const Ended& one : ended) {
    CAPTURE(one.error);
    CHECK((one.code == kExitCheck || one.code == kExitDevice));
    CHECK(one.error.find("the loss is not finite at step 3") != std::string::npos);
  }
  CHECK(workers.trials[0].events.back() == "step 2");
}

}  // namespace trainer::train
