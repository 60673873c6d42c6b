#include "model/backbones/depth_groups.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "model/backbones/backbone.h"

namespace trainer::model {
namespace {

// Returns whether the parameters of the layer scale the output of the layer before it.
bool continues_layer(const std::string& kind) {
  constexpr std::array<const char*, 6> kKinds = {
      "BatchNormalization", "LayerNormalization",         "GroupNormalization", "PReLU",
      "LayerScale",         "GlobalResponseNormalization"};
  return std::ranges::find(kKinds, kind) != kKinds.end();
}

}  // namespace

int DepthGroups::add(const std::string& name, const std::string& kind, std::optional<int> group) {
  std::string key = group ? concat("group ", *group) : continues_layer(kind) ? "" : "layer " + name;
  if (depth_ < 0 || (!key.empty() && key != last_)) {
    ++depth_;
    last_ = std::move(key);
  }
  return depth_;
}

}  // namespace trainer::model
