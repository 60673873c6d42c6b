// Freezes the layers of each stage of a run, checks what updates change, and keeps the features of
// frozen layers.
#pragma once

#include <optional>
#include <vector>

#include "graph/graph.h"
#include "train/features/feature_cache.h"
#include "train/loop/freeze_check.h"
#include "train/loop/update_check.h"
#include "train/schedule/stages.h"

namespace trainer::train {

struct RunContext;

class StageControl {
 public:
  // Builds the models of all stages. `context` must outlive it.
  explicit StageControl(RunContext& context);

  const Stages& stages() const { return stages_; }
  // Freezes the layers of the stage.
  void enter(std::size_t stage);
  // Enters the stage of a run after `steps` updates.
  void enter_after(std::int64_t steps) { enter(stages_.after(steps)); }

  // Begins the stage once the engine has its variables. From here on frozen variables must not
  // change, and the features of frozen layers may be kept. Collective.
  void begin();
  // Returns whether the next update is the first of another stage.
  bool is_next_due() const;
  // Ends the stage and begins the next. Nobody may read features(). Collective.
  void begin_next();
  // Throws CheckError when a frozen variable has changed since the stage began.
  void check() const { frozen_->check(engine_); }
  UpdateCheck& updates() { return updates_; }

  FeatureCaches& features() { return features_; }

 private:
  // Keeps features in the folder that runs share, or else in the run folder.
  void open_features();
  FeaturePlan open_features(const FeatureFolder& folder);

  RunContext& context_;
  engine::Engine& engine_;
  Stages stages_;
  std::vector<graph::Graph> models_;
  std::optional<FreezeCheck> frozen_;
  UpdateCheck updates_;
  FeatureCaches features_;
};

}  // namespace trainer::train
