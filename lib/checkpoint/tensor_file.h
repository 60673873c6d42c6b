// The content of a file with tensors.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/types.h"

namespace trainer::checkpoint {

struct Tensor {
  std::string name;
  Shape shape;
  std::vector<float> values;
  bool is_integer = false;  // the file holds integers, which no weight of a model has
};

// What is read of a file: all, or the names, shapes and types of its tensors, without values.
enum class Content { kAll, kShapes };

// The state besides tensors, as text: step counters, best metric, class names, data fingerprint.
using Metadata = std::map<std::string, std::string>;

struct TensorFile {
  std::vector<Tensor> tensors;  // the order is that of the file
  Metadata metadata;
};

}  // namespace trainer::checkpoint
