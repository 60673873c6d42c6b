#include "train/loop/checkpointer.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "hooks/run_record.h"
#include "support.h"
#include "train/loop/run_context.h"

namespace trainer::train {
namespace {

using namespace support;

// A run folder, and a run that has made no step.
struct Subject {
  Subject()
      : trial(run_config()),
        engine(trial.model(), trial.config, open_test_backends(1), engine::Use::kTrain),
        job{trial.config, trial.data, engine, plan_steps(trial.config, 24), alone} {
    engine.initialise(1);
    job.run = trial.folder.path() / "run";
    job.warn = [this](const Notice& notice) { trial.warnings.push_back(notice); };
    job.hooks.push_back(std::make_unique<RecordingHook>(trial.events, trial.ranks, trial.rates,
                                                        trial.sample_ids, nullptr));
    prepare_run_folder(job.run, trial.config, Start::kFresh);
  }

  Trial trial;
  engine::Engine engine;
  ProcessGroup alone;
  Job job;
};

}  // namespace

TEST_CASE(
    "checkpointer: an unchanged state is saved once, and a changed state or a later step again") {
  Subject subject;
  RunContext context(subject.job);
  Checkpointer checkpointer(context);
  CHECK(checkpointer.last_checkpoint() == "none");
  checkpointer.save();
  checkpointer.save();
  CHECK(subject.trial.events == Events{"save 0"});
  context.state.evaluation_due = true;
  checkpointer.save();
  context.state.step = 4;
  checkpointer.save();
  CHECK(subject.trial.events == Events{"save 0", "save 0", "save 4"});
  CHECK(context.saved_step == 4);
  CHECK(checkpointer.last_checkpoint().find("step-00000004") != std::string::npos);
}

TEST_CASE("checkpointer loads the newest readable checkpoint, with a warning for a damaged one") {
  Subject subject;
  RunContext context(subject.job);
  Checkpointer checkpointer(context);
  CHECK_FALSE(checkpointer.load_latest());
  CHECK(subject.trial.warnings.back().text.find("starting anew") != std::string::npos);
  CHECK(subject.trial.warnings.back().kind == Notice::Kind::kNote);
  context.state.step = 1;
  checkpointer.save();
  context.state.step = 2;
  checkpointer.save();
  write_file_atomic(checkpointer.last_checkpoint(), std::string("damaged"));
  const auto file = checkpointer.load_latest();
  REQUIRE(file);
  CHECK(read_step(file->metadata, "") == 1);
  CHECK(subject.trial.warnings.back().text.find("step-00000002") != std::string::npos);
  CHECK(subject.trial.warnings.back().kind == Notice::Kind::kWarning);
  write_file_atomic(checkpoint_folder(subject.job.run) / "step-00000001.safetensors",
                    std::string("damaged"));
  CHECK_THROWS_WITH_AS(checkpointer.load_latest(),
                       doctest::Contains("none of the 2 checkpoints can be used"), DataError);
}

namespace {

// Notes which files of the run are complete when a checkpoint becomes visible.
class PublishWatch final : public hooks::Hook {
 public:
  PublishWatch(Path run, std::vector<std::string>& notes) : run_(std::move(run)), notes_(notes) {}
  std::string name() const override { return "publish_watch"; }
  void before_checkpoint(std::int64_t) override {
    notes_.push_back(list_checkpoints().empty() ? "not there" : "there");
  }
  void on_checkpoint(const Path&) override {
    notes_.push_back(list_checkpoints().empty() ? "not there" : "there");
    for (const char* name : {"ledger.csv", "metrics.csv", "metrics.jsonl", "run.json"}) {
      const std::string text = read_text_file(run_ / name);
      notes_.push_back(concat(name, " ", std::count(text.begin(), text.end(), '\n')));
    }
    notes_.push_back(read_text_file(run_ / "run.json").find("\"seconds\":7.5") != std::string::npos
                         ? "seconds of the last step"
                         : "old seconds");
  }

 private:
  std::vector<checkpoint::Saved> list_checkpoints() const {
    return checkpoint::list_checkpoints(checkpoint_folder(run_));
  }
  Path run_;
  std::vector<std::string>& notes_;
};

}  // namespace

TEST_CASE("checkpointer: the rows of its steps are in the files before a checkpoint is published") {
  Subject subject;
  std::vector<std::string> notes;
  std::vector<std::unique_ptr<hooks::Hook>>& all = subject.job.hooks;
  all.clear();
  all.push_back(std::make_unique<PublishWatch>(subject.job.run, notes));
  all.push_back(hooks::make_metrics_files_hook({1, config::Duration::Unit::kSteps}));
  all.push_back(hooks::make_ledger_hook([] { return std::string(64, 'a'); }));
  all.push_back(hooks::make_run_record_hook({}));
  hooks::RunInfo info;
  info.dir = subject.job.run;
  info.total_steps = 24;
  info.steps_per_epoch = 6;
  for (const auto& hook : all) hook->on_start(info);
  // Steps of a millisecond: no row is old enough to be flushed by itself.
  for (std::int64_t step = 1; step <= 3; ++step) {
    hooks::StepRecord progress;
    progress.step = step;
    progress.samples = 4;
    progress.step_seconds = 0.001;
    progress.elapsed = step == 3 ? 7.5 : 0.001;
    for (const auto& hook : all) hook->on_step(progress);
  }
  RunContext context(subject.job);
  context.state.step = 3;
  Checkpointer(context).save();
  CHECK(notes == Events{"not there", "there", "ledger.csv 5", "metrics.csv 4", "metrics.jsonl 3",
                        "run.json 1", "seconds of the last step"});
}

TEST_CASE("checkpointer: a resumed state is not saved again, and its best checkpoint is marked") {
  Subject subject;
  RunContext context(subject.job);
  context.state.step = context.state.best_step = 3;
  context.state.best = 0.5;
  Checkpointer(context).save();
  Checkpointer resumed(context);
  const Path best = checkpoint_folder(subject.job.run) / "best.safetensors";
  CHECK_FALSE(std::filesystem::exists(best));
  resumed.set_resumed();
  CHECK(std::filesystem::exists(best));
  resumed.save();
  CHECK(subject.trial.events == Events{"save 3"});
}

}  // namespace trainer::train
