#include "train/loop/evaluator.h"

#include <cmath>
#include <utility>

#include "base/error.h"
#include "engine/evaluate.h"
#include "train/loop/checkpointer.h"
#include "train/loop/run_context.h"
#include "train/loop/stage_control.h"
#include "train/process_group.h"

namespace trainer::train {
namespace {

using hooks::Request;

// Returns the value of the metric of run.best, if it is better than in all earlier evaluations.
std::optional<double> improvement(const hooks::Evaluation& evaluation, const RunState& state,
                                  const std::string& metric) {
  if (metric.empty()) return std::nullopt;
  const std::optional<double> value = hooks::find_metric(evaluation, metric);
  if (!value || !std::isfinite(*value)) return std::nullopt;
  const bool is_better = !state.best || (hooks::larger_is_better(metric) ? *value > *state.best
                                                                         : *value < *state.best);
  return is_better ? value : std::nullopt;
}

// Returns the request of the chief, because only the chief has hooks. Collective.
Request broadcast_request(ProcessGroup& group, Request request) {
  const bool stop = group.broadcast_from_chief(request == Request::kStop);
  const bool save = group.broadcast_from_chief(request == Request::kSave);
  return stop ? Request::kStop : save ? Request::kSave : Request::kContinue;
}

}  // namespace

Evaluator::Evaluator(RunContext& context, Checkpointer& checkpointer, StageControl& stages)
    : context_(context), checkpointer_(checkpointer), stages_(stages) {}

std::optional<hooks::Evaluation> Evaluator::evaluate(Split split) {
  Job& job = context_.job;
  const data::Dataset* dataset = job.data.dataset(split).get();
  if (dataset == nullptr) return std::nullopt;
  const ActivityScope scope(job.progress, Activity::kEvaluate);
  const double begin = job.clock();
  const std::int64_t step = context_.state.step;
  job.group.set_phase(
      context_.phase(concat("evaluating ", to_string(split), " after step ", step)));
  engine::EvaluateOptions options = engine::evaluate_options(job.config);
  options.workers = job.group.control();
  options.progress = job.progress;
  options.cancelled = [&] {
    context_.servers.check_peers();
    return context_.servers.stop_requested();
  };
  std::optional<engine::Metrics> metrics;
  ReadFailure& failure = context_.failure;
  failure.guard([&] {
    metrics = engine::evaluate(job.engine, *dataset, options, stages_.features().claim(dataset));
  });
  if (!metrics) {
    failure.set_any_rank(job.group.any_rank(!failure.message().empty()));
    return std::nullopt;
  }
  const std::string why = engine::why_not_finite(*metrics, job.config.data, split, *dataset);
  if (!why.empty() && !std::exchange(has_warned_of_loss_, true)) job.warn(why);
  return hooks::Evaluation{split, step, job.plan.epoch(step), job.clock() - begin, *metrics};
}

Request Evaluator::evaluate_between() {
  Job& job = context_.job;
  RunState& state = context_.state;
  context_.servers.pull_full_state();
  const Split split = job.data.validation ? Split::kValidation : Split::kTest;
  last_evaluation_ = evaluate(split);
  state.evaluation_due = job.data.dataset(split) != nullptr && !last_evaluation_;
  if (!last_evaluation_) {
    const bool failed = state.evaluation_due && context_.failure.any_rank();
    if (failed) stop_for_unreadable_data(context_, checkpointer_);
    return Request::kContinue;
  }
  const Request request = record_evaluation(*last_evaluation_);
  if (request == Request::kStop) state.stopped = true;
  save_if_best(*last_evaluation_);
  return request;
}

Request Evaluator::record_evaluation(const hooks::Evaluation& evaluation) {
  update_rate(evaluation);
  return broadcast_request(context_.job.group, context_.notify_hooks([&](hooks::Hook& hook) {
    return hook.on_evaluation(evaluation);
  }));
}

void Evaluator::update_rate(const hooks::Evaluation& evaluation) {
  const Job& job = context_.job;
  const auto* plateau = std::get_if<config::ReduceOnPlateauSchedule>(&job.config.schedule.kind);
  if (plateau == nullptr) return;
  const auto value = hooks::find_metric(evaluation, plateau->metric);
  if (!value) return;
  RunState& state = context_.state;
  state.plateau = after_evaluation(state.plateau.value_or(PlateauState{}), *plateau,
                                   evaluation.step, *value, context_.scheduled_rate(state.step));
}

void Evaluator::save_if_best(const hooks::Evaluation& evaluation) {
  RunState& state = context_.state;
  const auto value = improvement(evaluation, state, context_.job.config.run.best);
  if (!value) return;
  state.best = value;
  state.best_step = state.step;
  checkpointer_.save();
  checkpointer_.mark_best();
}

Evaluator::Final Evaluator::evaluate_at_end() {
  Final end;
  for (const Split split : {Split::kValidation, Split::kTest}) {
    const bool is_known = last_evaluation_ && last_evaluation_->split == split &&
                          last_evaluation_->step == context_.state.step;
    const auto evaluation = is_known ? last_evaluation_ : evaluate(split);
    if (context_.failure.any_rank()) stop_for_unreadable_data(context_, checkpointer_);
    if (evaluation) {
      if (!is_known) {
        record_evaluation(*evaluation);
        save_if_best(*evaluation);
      }
      end.evaluations.push_back(*evaluation);
    } else if (context_.job.data.dataset(split) != nullptr) {
      end.is_complete = false;
    }
  }
  return end;
}

}  // namespace trainer::train
