// Converts between data.preprocess and the Normalization layer that Keras's EfficientNet starts
// with. Internal to model.
// Reasons: lib/decisions/model.md#efficientnet-is-exported-without-imagenets-rescaling.
#pragma once

#include <vector>

#include "checkpoint/keras.h"
#include "graph/graph.h"

namespace trainer::model {

// Returns the preprocess op of a model. Throws std::logic_error if it has none.
const graph::Preprocess& find_preprocess(const graph::Graph& graph);

// Returns Keras's layers (x / 255 - mean) / sqrt(variance), with the numbers that make them equal
// to the graph's (x * scale - mean) / std.
std::vector<checkpoint::KerasLayer> keras_preprocessing(const graph::Graph& graph);

// Removes the weights of a Normalization layer from those of a file if the layer equals the graph's
// preprocessing: by itself, or together with the Rescaling layer that Keras adds after it for
// weights='imagenet', which divides by the square root of std once more.
void remove_normalization(std::vector<checkpoint::Tensor>& file, const graph::Graph& graph);

}  // namespace trainer::model
