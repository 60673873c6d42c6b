#include <cerrno>
#include <utility>

#include "hooks/hooks.h"
#include "hooks/input_throughput.h"
#include "hooks/interval.h"
#include "hooks/metric_window.h"
#include "results/train_events.h"
#include "results/write_json.h"

namespace trainer::hooks {
namespace {

class JsonHook : public Hook {
 public:
  JsonHook(std::ostream& out, const config::Duration& log_every, WallClock clock,
           std::function<void()> output_closed)
      : out_(out),
        log_every_(log_every),
        clock_(std::move(clock)),
        output_closed_(std::move(output_closed)) {}

  std::string name() const override { return "json"; }

  void on_start(const RunInfo& info) override {
    info_ = info;
    step_ = info.first_step;
    interval_.emplace(log_every_, info.steps_per_epoch);
    write(results::StartEvent{info.dir, info.total_steps, info.steps_per_epoch, info.first_step,
                              info.global_batch, info.replicas, info.passes_per_epoch,
                              info.weights});
  }

  Request on_step(const StepRecord& p) override {
    step_ = p.step;
    window_.add(p);
    throughput_.add(p);
    // The first step always has a line, because it shows how long the start took.
    const bool due = interval_->due(p.step, p.elapsed);
    if (!due && p.step != info_.first_step + 1) return Request::kContinue;
    results::StepEvent event{window_.make_row(), p.elapsed, {}, {}};
    if (!info_.servers.empty()) {
      event.staleness = window_.staleness();
      event.staleness_max = window_.staleness_max();
    }
    write(event);
    if (due) window_ = {};
    return Request::kContinue;
  }

  Request on_evaluation(const Evaluation& e) override {
    write(e);
    return Request::kContinue;
  }

  void on_checkpoint(const Path& path) override { write(results::CheckpointEvent{path, step_}); }

  void on_finish(const Finish& finish) override {
    write(results::FinishedEvent{info_.dir, finish, throughput_.feature_rates(), info_.ranks});
  }

 private:
  template <class Event>
  void write(const Event& event) {
    const std::string time = clock_ ? utc_time(clock_()) : "";
    results::print_json(results::Timed<Event>{event, time}, out_);
    if (!out_ && (errno == EPIPE || errno == EIO) && output_closed_)
      std::exchange(output_closed_, {})();
  }

  std::ostream& out_;
  config::Duration log_every_;
  WallClock clock_;
  std::function<void()> output_closed_;
  std::optional<Interval> interval_;
  RunInfo info_;
  std::int64_t step_ = 0;
  MetricWindow window_;
  InputThroughput throughput_;
};

}  // namespace

std::unique_ptr<Hook> make_json_hook(std::ostream& out, const config::Duration& log_every,
                                     WallClock clock, std::function<void()> output_closed) {
  return std::make_unique<JsonHook>(out, log_every, std::move(clock), std::move(output_closed));
}

}  // namespace trainer::hooks
