#include "train/servers/server_loop.h"

#include <optional>
#include <utility>

#include "base/error.h"
#include "data/not_finite.h"
#include "train/loop/training_run.h"
#include "train/servers/gradient_stream.h"
#include "train/signals.h"

namespace trainer::train {
namespace {

using hooks::FinishReason;
using Result = server::Pushed::Result;

// The training loop of the chief. The run's step is the global step, which all workers advance.
class ServerLoop {
 public:
  ServerLoop(Job& job, ParameterServers& servers)
      : job_(job), servers_(servers), signals_(/*acknowledge=*/true), run_(job, server_calls()) {}

  hooks::Finish run() {
    try {
      run_.load();
      start_servers();
      announce();
      return finish(train());
    } catch (const PeerError& error) {
      throw PeerError(error.what(), ". ", rescue());
    }
  }

 private:
  ServerCalls server_calls() {
    ServerCalls calls;
    calls.are_used = true;
    calls.stop_requested = [this] { return stop_requested(); };
    calls.check_peers = [this] { servers_.client().check(); };
    calls.pull_full_state = [this] { pull_full_state(); };
    calls.report_checkpoint = [this](std::int64_t step) {
      if (!servers_.client().lost()) servers_.client().saved(step);
    };
    return calls;
  }

  void start_servers() {
    servers_.start(job_.engine, common_model(job_.data, job_.engine), run_.state().step, job_.plan);
    has_full_state_ = true;
    has_latest_parameters_ = true;
  }

  void announce() {
    hooks::RunInfo info = run_.begin();
    info.replicas = servers_.workers();
    info.servers = servers_.describe();
    info.devices = job_.engine.backend().describe_devices(info.replicas);
    run_.announce(std::move(info));
  }

  FinishReason train() {
    if (const auto reason = run_.before_first_step()) return *reason;
    while (!run_.is_over()) {
      run_.clock().start_step();
      enter_stage();
      const std::optional<StepOutcome> outcome = make_step();
      if (!outcome) break;  // other workers have made the last step
      const DueActions due = run_.record(*outcome, stream_->seconds_waited());
      is_last_recorded_ = true;
      if (const auto reason = run_.carry_out(due)) return *reason;
    }
    return FinishReason::kDone;
  }

  void enter_stage() {
    const bool is_due = run_.stages().is_next_due();
    if (stream_ && !is_due) return;
    stream_.reset();
    if (is_due) run_.stages().begin_next();
    stream_.emplace(job_.config, *job_.data.train, job_.engine, servers_, run_.state().step);
    run_.clock().reset_wait();
  }

  // Pushes one gradient of this process. Other workers may have made steps since the last one.
  // Returns nullopt when the job is over.
  std::optional<StepOutcome> make_step() {
    if (!has_latest_parameters_ && !servers_.pull(job_.engine)) return std::nullopt;
    const std::int64_t before = servers_.step();
    has_full_state_ = has_latest_parameters_ = false;
    GradientStream::Step made;
    do {
      ReadFailure& failure = run_.context().failure;
      failure.guard([&] { made = stream_->next(); });
      // A loss that is not finite because of samples that are not is a failure of the data.
      if (made.not_finite) {
        failure.set_message(data::find_not_finite(job_.config.data, *job_.data.train));
      }
      failure.set_any_rank(!failure.message().empty());
      if (failure.any_rank()) run_.stop_for_unreadable_data();
      if (made.not_finite) return not_finite(made, before);
      last_made_ = made;
      is_last_recorded_ = false;
      if (made.pushed.result == Result::kOver) return std::nullopt;
    } while (made.pushed.result == Result::kStale && !stop_requested());
    has_latest_parameters_ = true;
    return make_outcome(made);
  }

  StepOutcome not_finite(const GradientStream::Step& made, std::int64_t before) {
    StepOutcome outcome;
    outcome.not_finite = NotFinite{*made.not_finite, made.blame, run_.context().rate(before)};
    return outcome;
  }

  StepOutcome make_outcome(const GradientStream::Step& made) const {
    StepOutcome outcome;
    outcome.penalty = made.penalty;
    outcome.times = {made.times};
    hooks::StepRecord& record = outcome.record;
    record.step = made.pushed.step;
    record.epoch = job_.plan.epoch(record.step);
    record.steps = record.step - run_.state().recorded_step;
    record.samples = record.steps * job_.plan.batch * job_.plan.accumulate;
    record.loss = made.loss / static_cast<double>(made.samples);
    record.accuracy = static_cast<double>(made.correct) / static_cast<double>(made.samples);
    record.learning_rate = made.pushed.learning_rate;
    record.staleness = made.pushed.staleness;
    return outcome;
  }

  bool stop_requested() const {
    return SignalWatch::received() != nullptr || servers_.client().stop_requested();
  }

  // The other workers continue to train meanwhile.
  void pull_full_state() {
    if (has_full_state_) return;
    run_.context().state.step = servers_.read(job_.engine);
    has_full_state_ = true;
    has_latest_parameters_ = false;
  }

  // Records the steps that other workers have made since the last step of this process, with the
  // loss of its last gradient. No later process would record them. A job that was interrupted is
  // resumed, and then records them with its first step.
  void record_last_steps(FinishReason reason) {
    const std::int64_t step = run_.state().step;
    if (!last_made_ || step <= run_.state().recorded_step) return;
    if (reason == FinishReason::kInterrupted) return;
    if (is_last_recorded_) {  // the steps of the others took no time of this process
      run_.clock().start_step();
      last_made_->times = {};
    }
    last_made_->pushed.step = step;
    last_made_->pushed.learning_rate = run_.context().rate(step - 1);
    run_.record(make_outcome(*last_made_), stream_->seconds_waited());
  }

  hooks::Finish finish(FinishReason reason) {
    pull_full_state();
    record_last_steps(reason);
    hooks::Finish facts;
    if (stream_) facts.input = stream_->describe_input();
    stream_.reset();
    const server::Staleness staleness = servers_.client().staleness();
    facts.staleness = {staleness.mean, staleness.max, staleness.refused};
    hooks::Finish finish = run_.finish(reason, std::move(facts));
    servers_.finish(finish.reason == FinishReason::kInterrupted);
    return finish;
  }

  // Saves what can be saved after a server has gone, and describes it. This process has the
  // parameters of one global step, and the slots of its last checkpoint. With one worker, steps do
  // not depend on timing: they are repeated from that checkpoint, and the mixture is not saved.
  std::string rescue() {
    const std::int64_t step = run_.state().step, slots = run_.context().saved_step;
    const bool exact = has_full_state_;
    if (step <= slots || (!exact && servers_.workers() == 1)) {
      return concat("The job was at step ", step,
                    "; last checkpoint: ", run_.checkpointer().last_checkpoint(),
                    "; start the job again with --resume");
    }
    has_full_state_ = true;  // the servers cannot complete it
    run_.checkpointer().save();
    return concat("The job was at step ", step, ", saved with the parameters of that step",
                  exact ? "" : concat(" and optimizer slots of step ", slots), ": ",
                  run_.checkpointer().last_checkpoint(), "; start the job again with --resume");
  }

  Job& job_;
  ParameterServers& servers_;
  SignalWatch signals_;
  TrainingRun run_;
  std::optional<GradientStream> stream_;
  std::optional<GradientStream::Step> last_made_;  // the newest gradient of this process
  bool is_last_recorded_ = false;                  // last_made_ is part of a recorded step
  // has_full_state_: the engine holds one state of all servers with all slots.
  // has_latest_parameters_: the engine holds the newest parameters.
  bool has_full_state_ = false, has_latest_parameters_ = false;
};

}  // namespace

hooks::Finish train_with_servers(Job& job, ParameterServers& servers) {
  return ServerLoop(job, servers).run();
}

}  // namespace trainer::train
