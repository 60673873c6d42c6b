// Builds a forward graph from a config.
#pragma once

#include <cstdint>
#include <vector>

#include "config/config.h"
#include "graph/graph.h"

namespace trainer::model {

// The shapes and types of a data set's samples.
struct SampleSpec {
  Shape image;  // [height, width, channels]
  DType image_type = DType::kUInt8;
  bool label_is_index = true;  // int32 class index; otherwise float32 targets of `classes` numbers
  std::int64_t classes = 0;
  std::vector<float> class_weight = {};   // weights of the training loss, by class; empty: all 1
  bool sample_weight = false;             // true if each training label has a weight
  std::vector<float> target_weight = {};  // see graph::Loss
};

// Returns the outputs per sample that the last layer must have: a logit per class or label, but one
// for two classes with binary_cross_entropy. 0 if the number of classes is unknown.
std::int64_t count_outputs(LossKind loss, bool label_is_index, std::int64_t classes);

// Builds the graph of the layers, with batch norm and dropout in their training form. Its inputs
// are "images" and "labels", its outputs logits and loss, and its last node is the loss without its
// gradient. Rows of float labels end with the weight of the sample, if samples have one. Throws
// ConfigError with every mistake that can be found.
graph::Graph build_model(const config::Model& model, const config::Data& data,
                         const SampleSpec& sample, std::uint64_t seed);
graph::Graph build_model(const config::Config& config, const SampleSpec& sample);

}  // namespace trainer::model
