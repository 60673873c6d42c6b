// The mean of the probabilities of several models, or of several versions of an image (--flip).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graph/ops/loss.h"

namespace trainer::engine {

// Computes the logits of the mean of several predictions of one sample, given by their logits: for
// softmax_cross_entropy the logarithms of the probabilities, for binary_cross_entropy log(p / (1 -
// p)) of each output, and for mean_squared_error the mean itself. All of `logits`, at least one,
// have the size of `mean`, which may be the memory of one of them.
void average_probabilities(LossKind loss, const std::vector<std::span<const float>>& logits,
                           std::span<float> mean);

// Returns the loss of one sample without weights, label smoothing and focal factors. `label` is its
// class.
double sample_loss(LossKind loss, std::span<const float> logits, std::int32_t label);

}  // namespace trainer::engine
