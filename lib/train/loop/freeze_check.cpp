#include "train/loop/freeze_check.h"

#include <set>

#include "base/error.h"
#include "checkpoint/safetensors.h"

namespace trainer::train {
namespace {

// Returns all variables of frozen layers, and the statistics of batch norms that use the moving
// ones.
std::set<std::string> frozen_names(const graph::Graph& model) {
  std::set<std::string> names;
  for (const graph::LayerInfo& layer : model.layers) {
    for (const graph::ValueId id : layer.parameters) {
      const bool statistic = model[id].role == graph::Role::kStatistic;
      if (!layer.trainable || (statistic && layer.moving_statistics)) names.insert(model[id].name);
    }
  }
  return names;
}

std::map<std::string, std::string> hash_frozen(const engine::Engine& engine) {
  std::map<std::string, std::string> hashes;
  const std::set<std::string> names = frozen_names(engine.replica().model());
  if (names.empty()) return hashes;
  for (checkpoint::Tensor& tensor : engine.replica().tensors()) {
    if (!names.contains(tensor.name)) continue;
    const std::string name = tensor.name;
    hashes[name] = checkpoint::sha256_of({std::move(tensor)});
  }
  return hashes;
}

}  // namespace

FreezeCheck::FreezeCheck(const engine::Engine& engine) : hashes_(hash_frozen(engine)) {}

void FreezeCheck::check(const engine::Engine& engine) const {
  std::string changed;
  for (const auto& [name, hash] : hash_frozen(engine)) {
    const auto before = hashes_.find(name);
    if (before == hashes_.end() || before->second != hash) changed += "\n  " + name;
  }
  if (changed.empty()) return;
  throw CheckError("frozen tensors changed during the training:" + changed +
                   "\nThis is a mistake of the program: please report it with the config.");
}

}  // namespace trainer::train
