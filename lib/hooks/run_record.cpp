#include "hooks/run_record.h"

#include <chrono>

#include "base/error.h"
#include "base/process/process.h"
#include "hooks/input_throughput.h"
#include "results/write_json.h"

namespace trainer::hooks {
namespace {

using results::RunRecord;

class RunRecordHook final : public Hook {
 public:
  RunRecordHook(RunRecord origin, std::function<void(const std::string&)> warn)
      : record_(std::move(origin)), warn_(std::move(warn)) {}

  std::string name() const override { return "run_record"; }

  void on_start(const RunInfo& info) override {
    folder_ = info.dir;
    ranks_ = info.ranks;
    earlier_ = read_earlier();
    record_.name = info.name;
    record_.classes = info.classes;
    record_.replicas = info.replicas;
    record_.global_batch = info.global_batch;
    record_.steps_per_epoch = info.steps_per_epoch;
    record_.total_steps = info.total_steps;
    record_.sessions = earlier_.sessions;
    if (info.first_step > 0 && !record_.weights) record_.weights = earlier_.weights;
    results::RunSession& session = record_.sessions.emplace_back();
    session.started = utc_time(std::chrono::system_clock::now());
    session.command = command_line();
    session.first_step = info.first_step;
    write();
  }

  Request on_step(const StepRecord& p) override {
    record_.sessions.back().seconds = p.elapsed;
    throughput_.add(p);
    return Request::kContinue;
  }
  void before_checkpoint(std::int64_t) override { write(); }

  void on_finish(const Finish& finish) override {
    results::RunSession& session = record_.sessions.back();
    session.seconds = finish.wall_seconds;
    session.step_seconds = finish.step_seconds;
    session.input = finish.input;
    if (!finish.times.empty()) session.step_times = results::make_step_means(finish.times, ranks_);
    session.gap_seconds = finish.gap_seconds;
    session.energy_joules = finish.energy_joules;
    session.joules_per_image = finish.joules_per_image;
    record_.best = finish.best;
    if (record_.best) record_.best->path.clear();
    if (finish.reason != FinishReason::kInterrupted) record_.finished = make_end(finish);
    write();
  }

 private:
  // Returns the record of the starts before this one. A damaged file is kept under another name.
  RunRecord read_earlier() const {
    try {
      return results::read_run_record(folder_).value_or(RunRecord{});
    } catch (const DataError& error) {
      const Path file = folder_ / results::kRunRecordFile;
      std::filesystem::rename(file, file.string() + ".damaged");
      if (warn_) {
        warn_(concat(error.what(), "; it is renamed to ", results::kRunRecordFile,
                     ".damaged, and the record of the run begins anew"));
      }
      return {};
    }
  }
  // Keeps the metrics and the throughput of the earlier record where this process made no step.
  results::FinishedRun make_end(const Finish& finish) const {
    results::FinishedRun end = earlier_.finished.value_or(results::FinishedRun{});
    // A run that is found finished is evaluated again only where its record or a server needs it.
    const bool keeps = finish.reason != FinishReason::kDone && finish.evaluations.empty();
    if (!keeps) end.metrics.clear();
    for (const Evaluation& e : finish.evaluations) {
      end.metrics.emplace_back(to_string(e.split), results::make_split_metrics(e.metrics));
    }
    end.steps = finish.steps;
    end.reason = to_string(finish.reason);
    end.parameters_sha256 = finish.parameters_sha256;
    if (finish.images_per_second) {
      end.images_per_second = finish.images_per_second;
      end.rates = throughput_.feature_rates();
    }
    return end;
  }

  void write() {
    record_.sessions.back().peak_memory_bytes = peak_memory_bytes();
    write_file_atomic(folder_ / results::kRunRecordFile, results::to_line(record_));
  }

  Path folder_;
  std::vector<std::string> ranks_;
  RunRecord record_;
  RunRecord earlier_;  // the record that the run had at the start, or an empty one
  InputThroughput throughput_;
  std::function<void(const std::string&)> warn_;
};

}  // namespace

std::unique_ptr<Hook> make_run_record_hook(RunRecord origin,
                                           std::function<void(const std::string&)> warn) {
  return std::make_unique<RunRecordHook>(std::move(origin), std::move(warn));
}

}  // namespace trainer::hooks
