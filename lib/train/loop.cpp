#include "train/loop.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "base/error.h"
#include "engine/evaluate.h"
#include "train/session/checkpointer.h"
#include "train/session/device_watch.h"
#include "train/session/evaluator.h"
#include "train/session/not_finite.h"
#include "train/session/restore_best.h"
#include "train/session/schedule.h"
#include "train/session/session.h"
#include "train/session/stage_control.h"
#include "train/session/start.h"
#include "train/session/step_clock.h"
#include "train/signals.h"

namespace trainer::train {
namespace {

using hooks::FinishReason;

class Loop {
 public:
  explicit Loop(Job& job);
  ~Loop() { strategy_.close_feed(); }  // reads what the members hold
  hooks::Finish run();

 private:
  void start();
  FinishReason train();
  hooks::Finish finish(FinishReason reason);

  bool is_over() const { return state_.step >= job_.plan.total_steps || state_.stopped; }
  void enter_stage();
  void launch_steps();
  bool may_launch() const;
  bool read_step();
  DueActions agree(const StepOutcome& outcome, hooks::Progress& progress);
  std::optional<FinishReason> carry_out(DueActions due);

  Job& job_;
  Strategy& strategy_;
  SignalWatch signals_;
  Session session_;
  RunState& state_;
  StageControl stages_;
  Checkpointer checkpointer_;
  Evaluator evaluator_;
  Schedule schedule_;
  StepClock clock_;
  DeviceWatch devices_;
  bool has_classes_;
  bool is_feed_open_ = false;
  int steps_in_flight_ = 0;  // launched and not read
  DueActions due_;           // once no step is in flight
  std::int64_t skipped_updates_ = 0;
};

Loop::Loop(Job& job)
    : job_(job),
      strategy_(job.strategy),
      signals_(job.strategy.is_chief()),
      session_(job),
      state_(session_.state),
      stages_(session_),
      checkpointer_(session_),
      evaluator_(session_, checkpointer_, stages_),
      schedule_(job.config.run, job.plan, stages_.stages()),
      clock_(job.clock),
      devices_(job.engine, job.warn),
      has_classes_(engine::has_classes(*job.data.train, job.config.model.loss)) {
  strategy_.attach(session_);
}

hooks::Finish Loop::run() {
  try {
    start();
    return finish(train());
  } catch (const PeerError& error) {
    const std::string rescued = strategy_.rescue(checkpointer_);
    if (rescued.empty()) throw;
    throw PeerError(concat(error.what(), ". ", rescued));
  }
}

// From the last checkpoint when asked to, from the initialisers otherwise.
void Loop::start() {
  std::string weights;
  job_.engine.initialise(job_.config.seed);
  if (strategy_.is_chief()) {
    if (job_.start == Start::kResume) resume(session_, checkpointer_, stages_);
    // Only now: a checkpoint that the config does not fit keeps the config that it was made with.
    write_config(job_.run, job_.config);
    if (state_.step == 0) weights = import_weights(session_);
  }
  strategy_.start(stages_);
  session_.saved_step = state_.step;
  stages_.begin();
  warn_of_small_batches(session_);
  if (strategy_.is_chief()) devices_.start();
  hooks::RunInfo info = run_info(session_, weights);
  clock_.set_ranks(info.ranks.size());
  devices_.describe(info);
  for (const auto& hook : job_.hooks) {
    const auto saved = state_.hooks.find(hook->name());
    if (saved != state_.hooks.end()) hook->restore(saved->second);
    hook->on_start(info);
  }
  if (state_.step == 0) checkpointer_.save();
}

FinishReason Loop::train() {
  if (state_.evaluation_due && state_.step < job_.plan.total_steps) {  // one was cut short
    evaluator_.evaluate_between();
    checkpointer_.save();
    if (state_.evaluation_due) return FinishReason::kInterrupted;
  }
  if (state_.stopped) return FinishReason::kEarlyStop;
  if (is_over()) return FinishReason::kAlreadyDone;
  while (!is_over()) {
    clock_.start_step();
    enter_stage();
    launch_steps();
    if (steps_in_flight_ == 0) stop_for_unreadable_data(session_, checkpointer_);
    if (!read_step()) break;  // other processes have made the last step
    if (steps_in_flight_ > 0) continue;
    if (const auto reason = carry_out(std::exchange(due_, {}))) return *reason;
  }
  return FinishReason::kDone;
}

// Freezes what the next step's stage has frozen, and opens its data.
void Loop::enter_stage() {
  if (steps_in_flight_ > 0 || (is_feed_open_ && !stages_.is_next_due())) return;
  if (is_feed_open_) strategy_.close_feed();  // reads features, which end with the stage
  if (stages_.is_next_due()) stages_.begin_next();
  strategy_.open_feed(stages_.features());
  is_feed_open_ = true;
  clock_.reset_wait();
}

// A step is launched before the numbers of those before it have arrived.
void Loop::launch_steps() {
  while (may_launch() && strategy_.launch(state_.step + steps_in_flight_)) ++steps_in_flight_;
}

// Whatever is due after a step is done before the next is launched.
bool Loop::may_launch() const {
  const std::int64_t launched = state_.step + steps_in_flight_;
  if (session_.failure.any_rank() || launched >= job_.plan.total_steps) return false;
  if (steps_in_flight_ == 0) return true;
  return steps_in_flight_ < strategy_.max_in_flight() && !due_.any() && !strategy_.may_stop_now() &&
         !schedule_.is_boundary(launched);
}

// Reads the numbers of the oldest step in flight and tells the hooks.
bool Loop::read_step() {
  const std::optional<StepOutcome> outcome = strategy_.result();
  --steps_in_flight_;
  if (!outcome) {
    if (session_.failure.any_rank()) stop_for_unreadable_data(session_, checkpointer_);
    return false;
  }
  if (outcome->not_finite) {
    throw_not_finite(describe(*outcome->not_finite, session_), checkpointer_.last_checkpoint());
  }
  hooks::Progress progress = outcome->progress;
  state_.step = progress.step;
  state_.restored_step = 0;
  progress.elapsed = session_.elapsed();
  clock_.set_own(strategy_.first_rank(), outcome->times, strategy_.seconds_waited());
  due_.merge(agree(*outcome, progress));
  clock_.end_step(progress, strategy_.workers() != nullptr);
  skipped_updates_ += progress.skipped ? 1 : 0;
  devices_.warn();
  const hooks::Request request =
      session_.notify_hooks([&](hooks::Hook& hook) { return hook.on_step(progress); });
  due_.request = std::max(due_.request, strategy_.submit(request));
  return true;
}

// What is due after the step, the same on all ranks. Completes loss, accuracy and sample_ids.
DueActions Loop::agree(const StepOutcome& outcome, hooks::Progress& progress) {
  StepVerdict own;
  own.loss = progress.loss;
  own.accuracy = progress.accuracy;
  own.penalty = outcome.penalty;
  own.due = schedule_.due(state_.step, progress.elapsed);
  own.due.interrupted = strategy_.stop_requested();
  own.unreadable = !session_.failure.message().empty();
  own.sample_ids = progress.sample_ids;
  const StepVerdict verdict = strategy_.agree(own, clock_.ranks());
  session_.failure.set_any_rank(verdict.unreadable);
  progress.loss = verdict.loss + verdict.penalty.value_or(0);
  progress.sample_ids = verdict.sample_ids;
  progress.accuracy = has_classes_ ? verdict.accuracy : std::numeric_limits<double>::quiet_NaN();
  return verdict.due;
}

// Evaluates and saves. Returns why the run ends here, if it does.
std::optional<FinishReason> Loop::carry_out(DueActions due) {
  if (due.evaluate && state_.step < job_.plan.total_steps) {
    due.request = std::max(due.request, evaluator_.evaluate_between());
  }
  // An evaluation may have been cut short.
  due.interrupted = due.interrupted || strategy_.may_stop_now() || state_.evaluation_due;
  state_.stopped = state_.stopped || due.request == hooks::Request::kStop;
  if (due.save || due.interrupted || due.request != hooks::Request::kContinue) checkpointer_.save();
  if (due.interrupted) return FinishReason::kInterrupted;
  if (state_.stopped) return FinishReason::kEarlyStop;
  if (session_.failure.any_rank()) stop_for_unreadable_data(session_, checkpointer_);
  return std::nullopt;
}

hooks::Finish Loop::finish(FinishReason reason) {
  strategy_.pull_full_state();
  session_.failure.clear();  // discards a read error past the last step
  hooks::Finish finish;
  finish.reason = reason;
  if (reason != FinishReason::kInterrupted) {
    restore_best(session_, checkpointer_, evaluator_, stages_);
    Evaluator::Final end = evaluator_.evaluate_at_end();
    finish.evaluations = std::move(end.evaluations);
    checkpointer_.save();
    if (!end.is_complete || strategy_.may_stop_now()) finish.reason = FinishReason::kInterrupted;
  }
  stages_.check();
  finish.steps = state_.step;
  finish.best = checkpointer_.best();
  finish.wall_seconds = session_.elapsed();
  clock_.describe(finish);
  finish.skipped_updates = skipped_updates_;
  finish.parameters_sha256 = job_.engine.parameters_sha256();
  devices_.finish(finish,
                  static_cast<double>(clock_.samples()) / static_cast<double>(job_.plan.replicas));
  strategy_.describe(finish);
  for (const auto& hook : job_.hooks) hook->on_finish(finish);
  strategy_.finish(finish.reason);
  return finish;
}

}  // namespace

hooks::Finish train(Job& job) { return Loop(job).run(); }

}  // namespace trainer::train
