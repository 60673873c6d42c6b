// Forward graph -> training graph and evaluation graph: a list of passes, each graph -> graph.
#pragma once

#include <ostream>
#include <set>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace trainer::compile {

struct Options {
  // Type of activations and their gradients; parameters stay float32.
  DType activations = DType::kFloat32;
  graph::Update update;  // the optimizer, without the per-parameter fields
  // True if a training graph is to compute activations again in backward where that takes less
  // memory. The results are the same bits.
  bool recompute = false;
  std::string print_after;  // name of a pass, "all", or ""
  std::ostream* print_to = nullptr;
};

// Returns the training graph. Its inputs are images and labels; its outputs are logits, the loss
// (one number per sample), the rank of the label's class (ClassRank) and, if the model has one, the
// L2 penalty. The update nodes are in phase kUpdate.
graph::Graph training_graph(const graph::Graph& model, const Options& options);

// Returns the parameters of a training graph whose gradient is always zero: biases that batch norm
// cancels.
std::set<std::string> parameters_without_gradient(const graph::Graph& training_graph);

// Returns the evaluation graph, in inference form and with batch norm folded. Its outputs are
// logits and loss; with `prediction` it has no labels and gives logits only. With weight averages,
// it reads these instead of the parameters.
graph::Graph evaluation_graph(const graph::Graph& model, const Options& options,
                              bool prediction = false);

// Returns the graph of a gradient of the logits, in inference form and in float32. Its inputs are
// images and weights [batch, outputs]. Its outputs are the logits, `activation` (a value of the
// model that is neither an input nor a parameter), and the gradient with respect to it of the sum
// of weight times logit. With weight averages, it reads these instead of the parameters. Throws
// ConfigError if the logits do not depend on the activation.
graph::Graph logit_gradient_graph(const graph::Graph& model, const Options& options,
                                  graph::ValueId activation);

// A model split before its first trained or random layer: the prefix depends on frozen layers and
// the image alone.
struct FrozenSplit {
  graph::Graph prefix;  // images -> features, for feature_graph()
  graph::Graph
      suffix;          // features, labels -> logits, loss; a whole model with all persistent values
  std::string layer;   // the layer whose output the features are
  std::string reason;  // the reason why the model cannot be split; "" when it can
};
// Splits at the latest place where the rest of the graph needs a single value.
FrozenSplit split_frozen(const graph::Graph& model, const Options& options);

// Returns the graph of the prefix, in inference form. Its output, the features, has the type of
// activations.
graph::Graph feature_graph(const FrozenSplit& split, const Options& options);

// Returns the names of the passes that make training and evaluation graphs, in order.
std::vector<std::string> pass_names();

}  // namespace trainer::compile
