// The groups of layers that optimizer.layer_decay distinguishes. Internal to model.
#pragma once

#include <optional>
#include <string>

#include "config/sections/model.h"

namespace trainer::model {

// Numbers the groups from 0 at the input. Blocks of a backbone are timm's groups, and the layers
// after them are the last group. Every other layer with weights is a group together with the
// normalization after it.
class DepthGroups {
 public:
  explicit DepthGroups(const std::optional<config::Backbone>& backbone) : backbone_(backbone) {}
  // Returns the group of the next layer that has parameters. `kind` is graph::LayerInfo::kind.
  int add(const std::string& name, const std::string& kind, bool of_backbone);

 private:
  const std::optional<config::Backbone>& backbone_;
  std::string last_;  // the name of the last group
  int depth_ = -1;
};

}  // namespace trainer::model
