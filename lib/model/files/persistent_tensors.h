// Finds the tensors that evaluation uses. Internal to model.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "checkpoint/tensor_file.h"
#include "graph/graph.h"

namespace trainer::model {

// The parameters and statistics that evaluation uses, by name, with averages in place of their
// parameters.
class PersistentTensors {
 public:
  PersistentTensors(const graph::Graph& graph, const std::vector<checkpoint::Tensor>& tensors);
  const checkpoint::Tensor& at(const std::string& name) const { return *by_name_.at(name); }

 private:
  std::map<std::string, const checkpoint::Tensor*> by_name_;
};

}  // namespace trainer::model
