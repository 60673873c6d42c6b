#include "train/loop/stage_control.h"

#include "train/loop/run_context.h"
#include "train/open.h"

namespace trainer::train {
namespace {

FeatureSharing find_sharing(const RunContext& context, bool in_shared_folder) {
  const ProcessGroup& group = context.job.group;
  if (context.servers.are_used) return FeatureSharing::kServers;
  if (group.size() == 1) return in_shared_folder ? FeatureSharing::kRuns : FeatureSharing::kAlone;
  return group.on_one_machine() ? FeatureSharing::kOneMachine : FeatureSharing::kSeveralMachines;
}

}  // namespace

StageControl::StageControl(RunContext& context)
    : context_(context),
      engine_(context.job.engine),
      stages_(context.job.config, context.job.plan),
      models_(
          stage_models(context.job.config, sample_spec(context.job.data), stages_.first_steps())),
      updates_(context) {}

void StageControl::enter(std::size_t stage) {
  if (stage != 0) engine_.change_frozen(models_[stage]);
  context_.state.stage = stage;
}

void StageControl::begin() {
  frozen_.emplace(engine_);
  updates_.begin_stage();
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

FeaturePlan StageControl::open_features(const FeatureFolder& folder) {
  const Job& job = context_.job;
  const std::int64_t first = stages_.first_steps()[context_.state.stage];
  FeaturePlan plan = plan_features(job.config, engine_, feature_splits(job.data),
                                   job.plan.epoch(job.plan.total_steps - first),
                                   find_sharing(context_, folder.is_shared), context_.state.stage);
  features_ = FeatureCaches();  // unlocks its files, which another run may wait for
  features_ = FeatureCaches(plan, job.config, engine_, job.data, folder, job.group);
  return plan;
}

void StageControl::open_features() {
  const Job& job = context_.job;
  FeatureFolder folder;
  folder.build = job.build;
  folder.stop_requested = context_.servers.stop_requested;
  folder.warn = job.warn;
  folder.path = job.shared_features;
  folder.is_shared = job.group.broadcast_from_chief(!job.shared_features.empty());
  if (!folder.is_shared) folder.path = job.run / "features";
  FeaturePlan plan = open_features(folder);
  if (folder.is_shared && !features_.problem().empty()) {
    job.warn("features of the frozen layers are not shared with other runs: " +
             features_.problem());
    folder.path = job.run / "features";
    folder.is_shared = false;
    plan = open_features(folder);
  }
  if (plan.reason_matters && !plan.reason.empty()) {
    job.warn(Notice::note("features of the frozen layers are " + describe(plan)));
  }
  if (!features_.problem().empty()) {
    job.warn("features of the frozen layers are not kept: " + features_.problem());
  }
}

}  // namespace trainer::train
