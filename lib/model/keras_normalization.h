// The Normalization layer that Keras's EfficientNet starts with, for what data.preprocess does
// here. Internal to model.
// Reasons: lib/decisions/model.md#efficientnet-is-exported-without-imagenets-rescaling.
#pragma once

#include <vector>

#include "checkpoint/weights.h"
#include "graph/graph.h"

namespace trainer::model {

const graph::Preprocess& preprocess_of(const graph::Graph& graph);

// The layers (x / 255 - mean) / sqrt(variance) of Keras's, with the numbers that make this the
// graph's (x * scale - mean) / std.
std::vector<checkpoint::KerasLayer> keras_preprocessing(const graph::Graph& graph);

// Removes the weights of such a layer from those of a file if the layer does what the graph's
// preprocessing does: by itself, or in front of the Rescaling layer that Keras adds for
// weights='imagenet', which divides by the square root of std once more.
void remove_normalization(std::vector<checkpoint::Tensor>& file, const graph::Graph& graph);

}  // namespace trainer::model
