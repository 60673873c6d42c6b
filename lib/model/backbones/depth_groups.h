// The groups of layers that optimizer.layer_decay distinguishes. Internal to model.
#pragma once

#include <optional>
#include <string>

namespace trainer::model {

// Numbers the groups from 0 at the input. Those of a backbone are given, with kHeadGroup for the
// layers after it. Every layer of another model that has weights is a group together with the
// normalization after it.
class DepthGroups {
 public:
  // Returns the number of the group of the next layer that has parameters. `kind` is
  // graph::LayerInfo::kind, and `group` is set in a model with a backbone.
  int add(const std::string& name, const std::string& kind, std::optional<int> group);

 private:
  std::string last_;  // identifies the last group
  int depth_ = -1;
};

}  // namespace trainer::model
