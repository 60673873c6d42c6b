#include "compile/compile.h"

#include "compile/passes.h"

namespace trainer::compile {
namespace {

struct Pass {
  const char* name;
  Graph (*run)(Graph, const Options&);
  // True for the graphs that it takes part in making.
  bool training, evaluation, prediction, features, logit_gradient;
};

// The passes, in the order in which they run. The graph of a gradient of the logits has no fused
// activations, because fuse_activation looks only for trained parameters when it decides whether a
// derivative is needed.
constexpr Pass kPasses[] = {
    {"remove_loss", remove_loss, false, false, true, true, true},
    {"freeze", freeze, true, true, true, true, true},
    {"read_averages", read_averages, false, true, true, true, true},
    {"inference", inference, false, true, true, true, true},
    {"fold_padding", fold_padding, true, true, true, true, true},
    {"fold_batch_norm", fold_batch_norm, true, true, true, true, true},
    {"fuse_activation", fuse_activation, true, true, true, true, false},
    {"trim", trim, true, true, true, true, false},
    {"precision", precision, true, true, true, true, false},
    {"logits_precision", logits_precision, true, true, true, false, false},
    {"class_rank", class_rank, true, false, false, false, false},
    {"penalty", penalty, true, false, false, false, false},
    {"differentiate", differentiate, true, false, false, false, false},
    {"differentiate_logits", differentiate_logits, false, false, false, false, true},
    {"fuse_backward", fuse_backward, true, false, false, false, false},
    {"update", update, true, false, false, false, false},
    {"recompute", recompute, true, false, false, false, false},
    {"tidy", tidy, true, true, true, true, true},
};

Graph run(Graph graph, const Options& options, bool Pass::*takes_part) {
  for (const Pass& pass : kPasses) {
    if (!(pass.*takes_part)) continue;
    graph = pass.run(std::move(graph), options);
    verify(graph);
    if (options.print_to && (options.print_after == "all" || options.print_after == pass.name)) {
      *options.print_to << "after " << pass.name << ":\n";
      print(graph, *options.print_to);
    }
  }
  return graph;
}

}  // namespace

Graph training_graph(const Graph& model, const Options& options) {
  return run(model, options, &Pass::training);
}

Graph evaluation_graph(const Graph& model, const Options& options, bool prediction) {
  return run(model, options, prediction ? &Pass::prediction : &Pass::evaluation);
}

Graph feature_graph(const FrozenSplit& split, const Options& options) {
  return run(split.prefix, options, &Pass::features);
}

Graph logit_gradient_graph(const Graph& model, const Options& options, ValueId activation) {
  Graph graph = model;
  graph.outputs.push_back(activation);
  return run(std::move(graph), options, &Pass::logit_gradient);
}

std::vector<std::string> pass_names() {
  std::vector<std::string> names;
  for (const Pass& pass : kPasses) {
    if (pass.training || pass.evaluation || pass.prediction) names.emplace_back(pass.name);
  }
  return names;
}

}  // namespace trainer::compile
