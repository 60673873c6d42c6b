// The logits of the samples of a split, with their labels: what calibration, curves and operating
// points are computed from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "graph/ops/loss.h"

namespace trainer::engine {

struct LabelledLogits {
  // The number of logits per sample. A single one is the logarithm of the odds of the second of two
  // classes.
  std::int64_t outputs = 1;
  std::vector<float> logits;         // [samples, outputs]
  std::vector<std::int32_t> labels;  // [samples], each in [0, classes())

  std::int64_t samples() const { return std::ssize(labels); }
  std::int64_t classes() const { return outputs == 1 ? 2 : outputs; }
  std::span<const float> row(std::size_t sample) const {
    const std::size_t width = outputs;
    return std::span(logits).subspan(sample * width, width);
  }
};

// Returns why the outputs of a model are not the probabilities of classes that exclude each other:
// those of a regression or of several labels per sample; "" if they are.
std::string why_no_class_probabilities(LossKind loss, std::int64_t outputs);

}  // namespace trainer::engine
