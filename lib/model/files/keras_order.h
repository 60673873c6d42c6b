// Finds the order of a model's layers in Keras. Internal to model.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace trainer::model {

// Returns the layers in the order of `layers` of Keras's functional model, which is that of its
// files: by falling depth, which is the number of layers on the longest path to the output, and
// layers of one depth in the order in which a depth-first search from the output visits them. A
// model without branches keeps its order. The pointers live as long as `graph`.
std::vector<const graph::LayerInfo*> keras_order(const graph::Graph& graph);

}  // namespace trainer::model
