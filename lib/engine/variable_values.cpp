#include "engine/variable_values.h"

#include <map>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "checkpoint/safetensors.h"
#include "model/initialise.h"

namespace trainer::engine {

void initialise(backend::Variables& variables, std::uint64_t seed) {
  std::map<std::string, std::vector<float>> parameters;
  for (const graph::Value& value : variables.values()) {
    std::vector<float> values = model::initial_values(value, seed);
    // An average starts as a copy of its parameter.
    const std::string suffix = "/average";
    if (value.role == graph::Role::kSlot && value.name.ends_with(suffix)) {
      values = parameters.at(value.name.substr(0, value.name.size() - suffix.size()));
    }
    variables.write(value.name, values);
    if (value.role == graph::Role::kParameter) parameters[value.name] = std::move(values);
  }
}

void write_known(backend::Variables& variables, const std::vector<checkpoint::Tensor>& tensors) {
  std::set<std::string> names;
  for (const graph::Value& value : variables.values()) names.insert(value.name);
  for (const checkpoint::Tensor& tensor : tensors) {
    if (names.contains(tensor.name)) variables.write(tensor.name, tensor.values);
    const std::string average = tensor.name + "/average";
    if (names.contains(average)) variables.write(average, tensor.values);
  }
}

std::vector<checkpoint::Tensor> read_all(
    const backend::Variables& variables,
    const std::function<bool(const graph::Value&)>& is_wanted) {
  std::vector<checkpoint::Tensor> tensors;
  for (const graph::Value& value : variables.values()) {
    if (!is_wanted(value)) continue;
    checkpoint::Tensor tensor{value.name, value.shape, {}};
    tensor.values.resize(value.shape.elements());
    variables.read(value.name, tensor.values);
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

void load_all(backend::Variables& variables, const checkpoint::TensorFile& file,
              const std::string& path, UnknownTensors unknown) {
  std::map<std::string, const checkpoint::Tensor*> by_name;
  for (const checkpoint::Tensor& tensor : file.tensors) by_name[tensor.name] = &tensor;
  std::string problems;
  for (const graph::Value& value : variables.values()) {
    const auto found = by_name.find(value.name);
    if (found == by_name.end()) {
      problems += concat("\n  ", value.name, " ", to_string(value.shape), " is missing");
    } else if (found->second->shape != value.shape) {
      problems += concat("\n  ", value.name, " has shape ", to_string(found->second->shape),
                         ", the model needs ", to_string(value.shape));
    }
    if (found != by_name.end()) by_name.erase(found);
  }
  if (unknown == UnknownTensors::kRejected) {
    for (const auto& [name, tensor] : by_name) {
      problems += concat("\n  ", name, " ", to_string(tensor->shape), " has no place in the model");
    }
  }
  if (!problems.empty()) {
    throw DataError(path, Controls::kLines,
                    "does not fit the model that the config describes:", problems,
                    "\nUse the config that the checkpoint was made with.");
  }
  for (const checkpoint::Tensor& tensor : file.tensors) {
    if (!by_name.contains(tensor.name)) variables.write(tensor.name, tensor.values);
  }
}

std::string parameters_sha256(const backend::Variables& variables) {
  return checkpoint::sha256_of(read_all(
      variables, [](const graph::Value& value) { return value.role != graph::Role::kSlot; }));
}

}  // namespace trainer::engine
