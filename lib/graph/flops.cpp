// Only convolutions and dense layers count: the rest is bound by memory, not by arithmetic.
#include "graph/graph.h"

namespace trainer::graph {
namespace {

struct At {
  const Graph& graph;
  const Node& node;
  const Shape& input(std::size_t i) const { return graph[node.inputs[i]].shape; }
  const Shape& output(std::size_t i) const { return graph[node.outputs[i]].shape; }
};

// Two operations for every weight and output pixel; `y` is the convolution's output.
std::int64_t conv(const Shape& kernel, const Shape& y) {
  return 2 * kernel.elements() * y[1] * y[2];
}

Shape convolved(const Conv& op, const Shape& x, const Shape& kernel) {
  return {kBatch, op.window.output(x[1], 0), op.window.output(x[2], 1), kernel[3]};
}

std::int64_t work(const Preprocess&, const At&) { return 0; }
std::int64_t work(const Conv&, const At& at) { return conv(at.input(1), at.output(0)); }
std::int64_t work(const ConvBackwardData&, const At& at) { return conv(at.input(1), at.input(0)); }
std::int64_t work(const ConvBackwardWeights& op, const At& at) {
  return conv(op.kernel, at.input(1));
}
std::int64_t work(const ConvMaxPool& op, const At& at) {
  return conv(at.input(1), convolved(op.conv, at.input(0), at.input(1)));
}
std::int64_t work(const ConvMaxPoolBackwardWeights& op, const At& at) {
  return conv(op.kernel, convolved(op.conv, at.input(0), op.kernel));
}
std::int64_t work(const Dense&, const At& at) { return 2 * at.input(1).elements(); }
std::int64_t work(const DenseBackwardData&, const At& at) { return 2 * at.input(1).elements(); }
std::int64_t work(const DenseBackwardWeights&, const At& at) { return 2 * at.output(0).elements(); }
std::int64_t work(const Pool&, const At&) { return 0; }
std::int64_t work(const PoolBackward&, const At&) { return 0; }
std::int64_t work(const GlobalPool&, const At&) { return 0; }
std::int64_t work(const GlobalPoolBackward&, const At&) { return 0; }
std::int64_t work(const Activate&, const At&) { return 0; }
std::int64_t work(const ActivateBackward&, const At&) { return 0; }
std::int64_t work(const Softmax&, const At&) { return 0; }
std::int64_t work(const SoftmaxBackward&, const At&) { return 0; }
std::int64_t work(const BatchNorm&, const At&) { return 0; }
std::int64_t work(const BatchNormBackward&, const At&) { return 0; }
std::int64_t work(const UpdateStatistics&, const At&) { return 0; }
std::int64_t work(const BatchNormInference&, const At&) { return 0; }
std::int64_t work(const BatchNormInferenceBackward&, const At&) { return 0; }
std::int64_t work(const FoldBatchNorm&, const At&) { return 0; }
std::int64_t work(const Dropout&, const At&) { return 0; }
std::int64_t work(const Add&, const At&) { return 0; }
std::int64_t work(const Concat&, const At&) { return 0; }
std::int64_t work(const Slice&, const At&) { return 0; }
std::int64_t work(const Reshape&, const At&) { return 0; }
std::int64_t work(const ZeroPad&, const At&) { return 0; }
std::int64_t work(const Crop&, const At&) { return 0; }
std::int64_t work(const Loss&, const At&) { return 0; }
std::int64_t work(const L2Penalty&, const At&) { return 0; }
std::int64_t work(const Update&, const At&) { return 0; }

}  // namespace

std::int64_t flops(const Graph& graph, const Node& node) {
  const At at{graph, node};
  return std::visit([&](const auto& op) { return work(op, at); }, node.op);
}

}  // namespace trainer::graph
