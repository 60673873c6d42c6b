// Divides the logits of a model by a number, through the parameters of its last layer.
#pragma once

#include <vector>

#include "checkpoint/tensor_file.h"
#include "graph/graph.h"

namespace trainer::model {

// Divides the kernel, the bias and their averages among `tensors` by `divisor` if the last layer is
// dense, so that every logit is divided by it but for rounding. Returns false, and changes nothing,
// if the last layer is of another kind or shares its parameters with another layer.
bool divide_logits(const graph::Graph& graph, double divisor,
                   std::vector<checkpoint::Tensor>& tensors);

}  // namespace trainer::model
