#include "train/loop/training_run.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "engine/evaluate.h"
#include "results/run_record.h"
#include "train/loop/not_finite.h"
#include "train/loop/start.h"

namespace trainer::train {

using hooks::FinishReason;

namespace {

// Returns whether the config asks for the best parameters and they have not been restored.
bool needs_restore(const RunContext& context) {
  const auto& stop = context.job.config.train.early_stop;
  return stop && stop->restore_best && context.state.restored_step == 0;
}

// Restores the best parameters after the last step, if the config asks for them and the last step,
// which is evaluated first, is not the best. Frozen variables and kept features become those of the
// stage in which the best evaluation was. The training data must be closed. Collective.
void restore_best(RunContext& context, Checkpointer& checkpointer, Evaluator& evaluator,
                  StageControl& stages) {
  const RunState& state = context.state;
  if (!needs_restore(context)) return;
  if (!evaluator.has_evaluated(state.step)) evaluator.evaluate_between();
  if (state.evaluation_due) return;
  const bool other_stage =
      stages.stages().after(state.best_step) != stages.stages().after(state.step);
  stages.check();
  if (!checkpointer.restore_best()) return;
  evaluator.forget_last();
  if (other_stage) stages.begin();
}

}  // namespace

TrainingRun::TrainingRun(Job& job, ServerCalls calls)
    : job_(job),
      context_(job, std::move(calls)),
      stages_(context_),
      checkpointer_(context_),
      evaluator_(context_, checkpointer_, stages_),
      schedule_(job.config.run, job.plan, stages_.stages()),
      agreement_(job.group),
      clock_(job.clock),
      devices_(job.engine, job.warn),
      has_classes_(engine::has_classes(*job.data.train, job.config.model.loss)) {}

void TrainingRun::load() {
  job_.engine.initialise(job_.config.seed);
  if (!job_.group.is_chief()) return;
  if (job_.start == Start::kResume) resume(context_, checkpointer_, stages_);
  restore_hooks();
  if (job_.start == Start::kResume) {
    // A tracking server may lack the last evaluations, so that they are made again for it.
    is_recorded_ = job_.config.run.mlflow.empty() && is_over() && !needs_restore(context_) &&
                   results::read_finished_steps(job_.run) == state().step;
  }
  // The config is written after resume() has checked it, so that a run whose checkpoint does not
  // fit keeps its own config.
  write_config(job_.run, job_.config);
  if (state().step == 0) weights_ = import_weights(context_);
  if (state().first_data.empty() && job_.data.train) {
    context_.state.first_data = job_.data.train->fingerprint();
  }
}

// A run that a hook has stopped goes on if the config has changed so that the hook would not have
// stopped it, and one that went on ends if the hook would have.
void TrainingRun::restore_hooks() {
  bool has_stopped = false;
  for (const auto& hook : job_.hooks) {
    const auto saved = state().hooks.find(hook->name());
    if (saved != state().hooks.end()) hook->restore(saved->second);
    has_stopped = has_stopped || hook->has_stopped();
  }
  const bool is_finished = state().step >= job_.plan.total_steps;
  context_.state.stopped = has_stopped && (state().stopped || !is_finished);
}

hooks::RunInfo TrainingRun::begin() {
  context_.saved_step = state().step;
  stages_.begin();
  warn_of_small_batches(context_);
  if (job_.group.is_chief()) devices_.start();
  return run_info(context_, weights_);
}

void TrainingRun::announce(hooks::RunInfo info) {
  clock_.set_ranks(info.ranks.size());
  devices_.describe(info);
  for (const auto& hook : job_.hooks) {
    hook->on_start(info);
  }
  if (state().step == 0) checkpointer_.save();
}

std::optional<FinishReason> TrainingRun::before_first_step() {
  is_recorded_ = job_.group.broadcast_from_chief(is_recorded_);
  if (is_recorded_) {
    return state().stopped ? FinishReason::kEarlyStop : FinishReason::kAlreadyDone;
  }
  if (state().evaluation_due && state().step < job_.plan.total_steps) {
    evaluator_.evaluate_between();
    checkpointer_.save();
    if (state().evaluation_due) return FinishReason::kInterrupted;
  }
  if (state().stopped) return FinishReason::kEarlyStop;
  if (is_over()) return FinishReason::kAlreadyDone;
  return std::nullopt;
}

DueActions TrainingRun::record(const StepOutcome& outcome, double seconds_waited) {
  if (outcome.not_finite) {
    throw_not_finite(*outcome.not_finite, context_, checkpointer_.last_checkpoint());
  }
  hooks::StepRecord record = outcome.record;
  context_.state.step = context_.state.recorded_step = record.step;
  context_.state.restored_step = 0;
  record.elapsed = context_.elapsed();
  const std::size_t first_rank = job_.group.rank() * job_.engine.count();
  clock_.set_own(first_rank, outcome.times, seconds_waited);
  DueActions due = agree(outcome, record);
  clock_.end_step(record, job_.group.size() > 1);
  skipped_updates_ += record.skipped ? 1 : 0;
  stages_.updates().after_step(record);
  devices_.warn();
  const hooks::Request request =
      context_.notify_hooks([&](hooks::Hook& hook) { return hook.on_step(record); });
  due.request = std::max(due.request, agreement_.submit(request));
  return due;
}

// Returns what is due after the step, the same on all ranks. Replaces this process's shares of
// loss, accuracy and sample_ids in `record` by the totals of all ranks.
DueActions TrainingRun::agree(const StepOutcome& outcome, hooks::StepRecord& record) {
  StepSummary share;
  share.loss = record.loss;
  share.accuracy = record.accuracy;
  share.penalty = outcome.penalty;
  share.due = schedule_.due(state().step, record.elapsed);
  share.due.interrupted = context_.servers.stop_requested();
  share.unreadable = !context_.failure.message().empty();
  share.sample_ids = record.sample_ids;
  const StepSummary summary = agreement_.agree(share, clock_.ranks());
  context_.failure.set_any_rank(summary.unreadable);
  record.loss = summary.loss + summary.penalty.value_or(0);
  record.sample_ids = summary.sample_ids;
  record.accuracy = has_classes_ ? summary.accuracy : std::numeric_limits<double>::quiet_NaN();
  return summary.due;
}

std::optional<FinishReason> TrainingRun::carry_out(DueActions due) {
  RunState& state = context_.state;
  if (due.evaluate && state.step < job_.plan.total_steps) {
    due.request = std::max(due.request, evaluator_.evaluate_between());
  }
  // An evaluation may have been cancelled.
  due.interrupted = due.interrupted || may_stop_now() || state.evaluation_due;
  state.stopped = state.stopped || due.request == hooks::Request::kStop;
  if (due.save || due.interrupted || due.request != hooks::Request::kContinue) checkpointer_.save();
  if (due.interrupted) return FinishReason::kInterrupted;
  if (state.stopped) return FinishReason::kEarlyStop;
  if (has_unreadable_data()) stop_for_unreadable_data();
  return std::nullopt;
}

hooks::Finish TrainingRun::finish(FinishReason reason, hooks::Finish finish) {
  context_.failure.clear();  // discards a read error past the last step
  finish.reason = reason;
  if (reason != FinishReason::kInterrupted && !is_recorded_) {
    stages_.updates().finish();
    restore_best(context_, checkpointer_, evaluator_, stages_);
    Evaluator::Final end = evaluator_.evaluate_at_end();
    finish.evaluations = std::move(end.evaluations);
    checkpointer_.save();
    if (!end.is_complete || may_stop_now()) finish.reason = FinishReason::kInterrupted;
  }
  stages_.check();
  finish.steps = state().step;
  finish.best = checkpointer_.best();
  finish.wall_seconds = context_.elapsed();
  clock_.describe(finish);
  finish.skipped_updates = skipped_updates_;
  finish.parameters_sha256 = job_.engine.replica().parameters_sha256();
  devices_.finish(finish,
                  static_cast<double>(clock_.samples()) / static_cast<double>(job_.plan.replicas));
  for (const auto& hook : job_.hooks) hook->on_finish(finish);
  return finish;
}

}  // namespace trainer::train
