#include "model/files/persistent_tensors.h"

#include "base/error.h"

namespace trainer::model {

using checkpoint::Tensor;

PersistentTensors::PersistentTensors(const graph::Graph& graph,
                                     const std::vector<Tensor>& tensors) {
  for (const Tensor& tensor : tensors) by_name_[tensor.name] = &tensor;
  for (const graph::Value& value : graph.values) {
    if (!graph::is_persistent(value.role)) continue;
    const auto average = by_name_.find(value.name + "/average");
    if (average != by_name_.end()) by_name_[value.name] = average->second;
    const auto found = by_name_.find(value.name);
    if (found == by_name_.end() || found->second->shape != value.shape) {
      throw DataError("the checkpoint",
                      concat("has no tensor ", value.name, ' ', to_string(value.shape),
                             ", which the config's model needs"));
    }
  }
}

}  // namespace trainer::model
