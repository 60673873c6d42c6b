// Converts between data.preprocess and the Normalization layer that Keras's EfficientNet starts
// with. Internal to model.
//
// EfficientNetB0(weights=None) prepares images as (x / 255 - mean) / sqrt(variance). With
// weights="imagenet" it has one more Rescaling layer, which divides by sqrt(std) of ImageNet once
// more. Both take the same list of weights, so that a file gives right results in one of them only.
// The export is for the first, which a program builds that loads a file of its own, and `export`
// prints this. The import recognises both variances.
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
