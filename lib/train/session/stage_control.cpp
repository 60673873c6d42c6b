#include "train/session/stage_control.h"

#include "train/open.h"
#include "train/session/session.h"

namespace trainer::train {

StageControl::StageControl(Session& session)
    : session_(session),
      engine_(session.job.engine),
      stages_(session.job.config, session.job.plan),
      models_(
          stage_models(session.job.config, sample_spec(session.job.data), stages_.first_steps())) {}

void StageControl::enter(std::size_t stage) {
  if (stage != 0) engine_.change_frozen(models_[stage]);
  session_.state.stage = stage;
}

void StageControl::begin() {
  frozen_.emplace(engine_);
  open_features();
}

bool StageControl::is_next_due() const {
  return stages_.of(session_.state.step) != session_.state.stage;
}

void StageControl::begin_next() {
  check();
  enter(stages_.of(session_.state.step));
  begin();
}

void StageControl::open_features() {
  const Job& job = session_.job;
  const std::int64_t first = stages_.first_steps()[session_.state.stage];
  const FeaturePlan plan = plan_features(job.config, engine_, feature_splits(job.data),
                                         job.plan.epoch(job.plan.total_steps - first),
                                         job.strategy.feature_sharing(), session_.state.stage);
  if (plan.reason_matters && !plan.reason.empty()) {
    job.warn(Notice::note("features of the frozen layers are " + describe(plan)));
  }
  features_ = FeatureCaches(plan, job.config, engine_, job.data, job.run, job.strategy.workers());
  if (!features_.problem().empty()) {
    job.warn("features of the frozen layers are not kept: " + features_.problem());
  }
}

}  // namespace trainer::train
