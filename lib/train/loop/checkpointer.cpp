#include "train/loop/checkpointer.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.h"
#include "checkpoint/safetensors.h"
#include "train/loop/not_finite.h"
#include "train/loop/run_context.h"
#include "train/run_dir.h"

namespace trainer::train {
namespace {

checkpoint::Metadata make_metadata(const RunContext& context) {
  const Job& job = context.job;
  checkpoint::Metadata metadata = to_metadata(context.state, job.config, job.data, job.plan);
  metadata["base"] = find_base(job.run);  // of the paths in the config
  return metadata;
}

}  // namespace

Checkpointer::Checkpointer(RunContext& context) : context_(context) {
  const Job& job = context.job;
  if (job.group.is_chief())
    store_.emplace(checkpoint_folder(job.run), job.config.run.keep, job.progress);
}

std::optional<checkpoint::TensorFile> Checkpointer::load_latest() {
  const Job& job = context_.job;
  std::vector<std::string> warnings;
  auto file = store_->load_latest(warnings);
  for (const std::string& warning : warnings) job.warn(warning);
  const std::string path = checkpoint_folder(job.run).string();
  if (!file && !warnings.empty()) {
    throw DataError(path, "none of the ", warnings.size(),
                    " checkpoints can be used; repair one, or start anew with --overwrite");
  }
  if (!file) job.warn(Notice::note("no checkpoint in " + path + ": starting anew"));
  return file;
}

void Checkpointer::set_resumed() {
  saved_ = make_metadata(context_);
  // The run may have been killed after it saved its best checkpoint and before it marked it.
  const RunState& state = context_.state;
  if (state.best && state.best_step == state.step) mark_best();
}

void Checkpointer::save() {
  Job& job = context_.job;
  RunState& state = context_.state;
  context_.servers.pull_full_state();
  for (const auto& hook : job.hooks) {
    const std::string text = hook->save();
    if (text.empty()) {
      state.hooks.erase(hook->name());
    } else {
      state.hooks[hook->name()] = text;
    }
  }
  state.loss_scale = job.engine.replica().loss_scale();
  checkpoint::Metadata metadata = make_metadata(context_);
  const std::string phase = concat("saving step ", state.step);
  job.group.set_phase(context_.saved_step < state.step ? context_.phase(phase) : phase);
  if (!job.group.broadcast_from_chief(metadata != saved_)) return;
  job.engine.check_equal();
  const std::vector<checkpoint::Tensor> tensors = job.engine.replica().tensors();
  check_finite(tensors);
  saved_ = std::move(metadata);
  context_.saved_step = state.step;
  if (!store_) return;
  for (const auto& hook : job.hooks) hook->before_checkpoint(state.step);
  const Path path = store_->save(state.step, tensors, saved_);
  remove_stored_predictions(job.run);
  context_.servers.report_checkpoint(state.step);
  for (const auto& hook : job.hooks) hook->on_checkpoint(path);
}

void Checkpointer::mark_best() {
  if (store_) store_->mark_best(context_.state.step);
}

bool Checkpointer::restore_best() {
  Job& job = context_.job;
  RunState& state = context_.state;
  if (!state.best || state.best_step == state.step) return false;
  std::map<std::string, graph::Role> roles;
  for (const graph::Value& value : job.engine.replica().variable_values())
    roles[value.name] = value.role;
  std::vector<checkpoint::Tensor> tensors = job.engine.replica().tensors();
  std::erase_if(tensors, [&](const checkpoint::Tensor& tensor) {
    return roles.at(tensor.name) == graph::Role::kSlot && !tensor.name.ends_with("/average");
  });
  if (store_) {
    std::map<std::string, checkpoint::Tensor> best;
    for (checkpoint::Tensor& tensor : checkpoint::read_checkpoint(store_->best_path()).tensors) {
      best[tensor.name] = std::move(tensor);
    }
    // The best checkpoint lacks the average of a parameter that was frozen at that time.
    for (checkpoint::Tensor& tensor : tensors) {
      const auto found = best.find(tensor.name);
      if (found != best.end() && found->second.shape == tensor.shape) tensor = found->second;
    }
  }
  job.group.broadcast_from_chief(tensors);
  job.engine.write(tensors);
  state.restored_step = state.best_step;
  return true;
}

std::optional<results::BestCheckpoint> Checkpointer::best() const {
  const RunState& state = context_.state;
  if (!store_ || !state.best) return std::nullopt;
  const Job& job = context_.job;
  return results::BestCheckpoint{
      job.config.run.best, *state.best,         job.plan.epoch(state.best_step),
      state.best_step,     store_->best_path(), state.restored_step == state.best_step};
}

std::string Checkpointer::last_checkpoint() const {
  if (!store_) return concat("rank 0's of step ", context_.saved_step);
  const auto saved = store_->list();
  return saved.empty() ? "none" : saved.back().path.string();
}

// Checks the variables, because a gradient may be infinite although the loss is finite.
void Checkpointer::check_finite(const std::vector<checkpoint::Tensor>& tensors) const {
  const std::int64_t step = context_.state.step;
  for (const checkpoint::Tensor& tensor : tensors) {
    if (std::ranges::all_of(tensor.values, [](float value) { return std::isfinite(value); })) {
      continue;
    }
    throw_not_finite(
        concat("variable ", tensor.name, " is not finite after step ", step, " (learning rate ",
               context_.rate(std::max<std::int64_t>(step - 1, 0)), ")"),
        last_checkpoint());
  }
}

}  // namespace trainer::train
