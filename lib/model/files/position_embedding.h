// Fits the position embeddings of a file to images of another size. Internal to model.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/tensor_file.h"
#include "config/sections/model.h"
#include "graph/graph.h"

namespace trainer::model {

struct Grid {
  std::int64_t height = 0, width = 0;
  bool operator==(const Grid&) const = default;
};

// The bicubic interpolations of torch.nn.functional.interpolate: with antialias, without, and with
// align_corners.
enum class Resampling { kAntialias, kPlain, kAlignCorners };

// Resamples vectors of `channels` numbers that stand row by row.
std::vector<float> resample(const std::vector<float>& values, Grid from, Grid to,
                            std::int64_t channels, Resampling resampling);

// Resamples the position embeddings among `file`, which have the names of the model, to its grid of
// patches as the library of the variant does. Vectors of class tokens and registers stay. The grid
// of a file of a library is square. Returns a note for each embedding that it changed.
std::vector<std::string> fit_positions(const graph::Graph& graph, const config::Backbone& backbone,
                                       std::vector<checkpoint::Tensor>& file);

}  // namespace trainer::model
