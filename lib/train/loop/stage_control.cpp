#include "train/loop/stage_control.h"

#include "train/loop/run_context.h"
#include "train/open.h"

namespace trainer::train {
namespace {

FeatureSharing find_sharing(const RunContext& context) {
  const ProcessGroup& group = context.job.group;
  if (context.servers.are_used) return FeatureSharing::kServers;
  if (group.size() == 1) return FeatureSharing::kAlone;
  return group.on_one_machine() ? FeatureSharing::kOneMachine : FeatureSharing::kSeveralMachines;
}

}  // namespace

StageControl::StageControl(RunContext& context)
    : context_(context),
      engine_(context.job.engine),
      stages_(context.job.config, context.job.plan),
      models_(
          stage_models(context.job.config, sample_spec(context.job.data), stages_.first_steps())) {}

void StageControl::enter(std::size_t stage) {
  if (stage != 0) engine_.change_frozen(models_[stage]);
  context_.state.stage = stage;
}

void StageControl::begin() {
  frozen_.emplace(engine_);
  open_features();
}

bool StageControl::is_next_due() const {
  return stages_.at(context_.state.step) != context_.state.stage;
}

void StageControl::begin_next() {
  check();
  enter(stages_.at(context_.state.step));
  begin();
}

void StageControl::open_features() {
  const Job& job = context_.job;
  const std::int64_t first = stages_.first_steps()[context_.state.stage];
  const FeaturePlan plan = plan_features(job.config, engine_, feature_splits(job.data),
                                         job.plan.epoch(job.plan.total_steps - first),
                                         find_sharing(context_), context_.state.stage);
  if (plan.reason_matters && !plan.reason.empty()) {
    job.warn(Notice::note("features of the frozen layers are " + describe(plan)));
  }
  features_ = FeatureCaches(plan, job.config, engine_, job.data, job.run, job.group);
  if (!features_.problem().empty()) {
    job.warn("features of the frozen layers are not kept: " + features_.problem());
  }
}

}  // namespace trainer::train
