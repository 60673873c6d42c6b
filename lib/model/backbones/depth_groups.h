// The groups of layers that optimizer.layer_decay tells apart. Internal to model.
#pragma once

#include <optional>
#include <string>

#include "config/config.h"

namespace trainer::model {

// Numbers the groups from 0 at the input. Blocks of a backbone are timm's groups, and what follows
// them is the last one; other layers with weights are a group each, with the normalization after
// them.
class DepthGroups {
 public:
  explicit DepthGroups(const std::optional<config::Backbone>& backbone) : backbone_(backbone) {}
  // The group of the next layer that has parameters. `kind`: graph::LayerInfo::kind.
  int add(const std::string& name, const std::string& kind, bool of_backbone);

 private:
  const std::optional<config::Backbone>& backbone_;
  std::string last_;  // the name of the last group
  int depth_ = -1;
};

}  // namespace trainer::model
