// Forward graph -> training graph and evaluation graph: a list of passes, each graph -> graph.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace trainer::compile {

// The fusions that a backend supports, as plain facts, so that passes depend on no backend.
struct Capabilities {
  bool fuse_activation = true;              // into conv, dense, batch norm
  bool fuse_conv_max_pool = false;          // ConvMaxPool for few input channels
  std::int64_t conv_max_pool_channels = 4;  // most input channels; kernels 1x1, 3x3 and 5x5
};

struct Options {
  Capabilities capabilities;
  // Type of activations and their gradients; parameters stay float32.
  DType activations = DType::kFloat32;
  graph::Update update;  // the optimizer, without the per-parameter fields
  // Whether a training graph computes activations again in backward where that takes less memory.
  // Its results are the same bits.
  bool recompute = false;
  std::string print_after;  // name of a pass, "all", or ""
  std::ostream* print_to = nullptr;
};

// The training graph: inputs images, labels; outputs logits, loss (one number a sample), the rank
// of the label's class (ClassRank) and, when the model has any, the L2 penalty. Its update nodes
// are in phase kUpdate.
graph::Graph training_graph(const graph::Graph& model, const Options& options);

// The evaluation graph: inference form, batch norm folded; outputs logits and loss. `prediction`
// has no labels and gives logits only. With weight averages, reads those instead of the parameters.
graph::Graph evaluation_graph(const graph::Graph& model, const Options& options,
                              bool prediction = false);

// A model split before its first trained or random layer: the prefix depends on frozen layers and
// the image alone.
struct FrozenSplit {
  graph::Graph prefix;  // images -> features, for evaluation_graph(prefix, options, true)
  graph::Graph
      suffix;          // features, labels -> logits, loss; a whole model with all persistent values
  std::string layer;   // the layer whose output the features are
  std::string reason;  // why the model cannot be split; "" when it can
};
// Splits at the latest place where the rest of the graph needs a single value.
FrozenSplit split_frozen(const graph::Graph& model, const Options& options);

// The names of the passes, in order.
std::vector<std::string> pass_names();

}  // namespace trainer::compile
