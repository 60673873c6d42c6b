#include <algorithm>
#include <iterator>

#include "compile/passes.h"

namespace trainer::compile {
namespace {

bool has_trainable(const Graph& graph, const Node& node) {
  return std::ranges::any_of(node.inputs, [&](ValueId id) { return graph[id].trainable; });
}

// Returns the convolution that `norm` can be folded into, or -1.
int convolution_before(const Graph& graph, const Node& norm) {
  const int i = graph.producer(norm.inputs[0]);
  if (i < 0 || !only_consumer(graph, norm.inputs[0])) return -1;
  const Node& node = graph.nodes[i];
  const auto* conv = std::get_if<graph::Conv>(&node.op);
  if (conv == nullptr || !conv->activation.linear()) return -1;
  return has_trainable(graph, node) || has_trainable(graph, norm) ? -1 : i;
}

// Makes the node that computes the kernel and bias of both, and adds its values to the graph.
Node fold(Graph& graph, const Node& conv, const Node& norm) {
  const auto& op = std::get<graph::Conv>(conv.op);
  const auto& norm_op = std::get<graph::BatchNormInference>(norm.op);
  Node folding{
      graph::FoldBatchNorm{norm_op.epsilon, op.bias}, {}, {}, conv.name, Phase::kPrepare, norm.loc};
  folding.inputs.assign(conv.inputs.begin() + 1, conv.inputs.end());
  folding.inputs.insert(folding.inputs.end(), norm.inputs.begin() + 1, norm.inputs.end());
  const Shape kernel = graph[conv.inputs[1]].shape;
  for (const char* name : {"/folded_kernel", "/folded_bias"}) {
    const Shape shape = folding.outputs.empty() ? kernel : Shape{kernel[3]};
    folding.outputs.push_back(
        graph.add_value({conv.name + name, shape, DType::kFloat32, Role::kDerived, norm.loc}));
  }
  return folding;
}

}  // namespace

Graph fold_batch_norm(Graph graph, const Options&) {
  std::vector<Node> prepare;
  std::vector<bool> removed(graph.nodes.size(), false);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node norm = graph.nodes[i];
    const auto* op = std::get_if<graph::BatchNormInference>(&norm.op);
    if (op == nullptr) continue;
    const int before = convolution_before(graph, norm);
    if (before < 0) continue;
    Node& conv = graph.nodes[before];
    prepare.push_back(fold(graph, conv, norm));
    auto& conv_op = std::get<graph::Conv>(conv.op);
    conv_op.bias = true;
    conv_op.activation = op->activation;
    conv.inputs = {conv.inputs[0], prepare.back().outputs[0], prepare.back().outputs[1]};
    replace_uses(graph, norm.outputs[0], conv.outputs[0]);
    removed[i] = true;
  }
  remove_nodes(graph, removed);
  graph.nodes.insert(graph.nodes.begin(), std::make_move_iterator(prepare.begin()),
                     std::make_move_iterator(prepare.end()));
  return graph;
}

}  // namespace trainer::compile
