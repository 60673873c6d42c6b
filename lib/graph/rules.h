// The rules of each operation, one overload an op, defined in graph/ops/. There is no catch-all
// overload: an op without a rule does not compile.
#pragma once

#include <cstddef>
#include <vector>

#include "base/error.h"
#include "graph/graph.h"

namespace trainer::graph::rules {

// ---- Shapes ----

// What a shape rule sees: the inputs, and whom to blame.
struct Site {
  const std::vector<Typed>& inputs;
  const std::string& name;
  const SourceLoc& loc;
};

template <class... Parts>
[[noreturn]] void fail(const Site& site, const Parts&... parts) {
  throw ConfigError(site.loc, concat(site.name, ": ", parts...));
}

// Throws std::logic_error unless there are `count` inputs.
void expect_inputs(const Site& site, std::size_t count);
// Input i, which must be [batch, height, width, channels] of floats.
const Typed& image(const Site& site, std::size_t i);
// Input i, which must be [batch, features] of floats. `advice` says what to do when it is not.
const Typed& rows(const Site& site, std::size_t i, const char* advice);
// Input i, which must have this shape; `what` names it.
void expect_shape(const Site& site, std::size_t i, const Shape& shape, const char* what);

// [batch, height, width, channels] after sliding `window` over the image `x`.
// Padding after the image may be negative, leaving its last pixels unread, with `may_cut` only.
Shape slide(const Site& site, const Window& window, const Shape& x, std::int64_t channels,
            bool may_cut = false);
// The same for pooling: no window may lie in the padding alone.
Shape slide_pool(const Site& site, const Window& window, const Shape& x);

using Outputs = std::vector<Typed>;
Outputs infer(const Preprocess& op, const Site& site);
Outputs infer(const Conv& op, const Site& site);
Outputs infer(const ConvBackwardData& op, const Site& site);
Outputs infer(const ConvBackwardWeights& op, const Site& site);
Outputs infer(const ConvMaxPool& op, const Site& site);
Outputs infer(const ConvMaxPoolBackwardWeights& op, const Site& site);
Outputs infer(const Dense& op, const Site& site);
Outputs infer(const DenseBackwardData& op, const Site& site);
Outputs infer(const DenseBackwardWeights& op, const Site& site);
Outputs infer(const Pool& op, const Site& site);
Outputs infer(const PoolBackward& op, const Site& site);
Outputs infer(const GlobalPool& op, const Site& site);
Outputs infer(const GlobalPoolBackward& op, const Site& site);
Outputs infer(const Activate& op, const Site& site);
Outputs infer(const ActivateBackward& op, const Site& site);
Outputs infer(const Softmax& op, const Site& site);
Outputs infer(const SoftmaxBackward& op, const Site& site);
Outputs infer(const BatchNorm& op, const Site& site);
Outputs infer(const BatchNormBackward& op, const Site& site);
Outputs infer(const UpdateStatistics& op, const Site& site);
Outputs infer(const BatchNormInference& op, const Site& site);
Outputs infer(const BatchNormInferenceBackward& op, const Site& site);
Outputs infer(const FoldBatchNorm& op, const Site& site);
Outputs infer(const Dropout& op, const Site& site);
Outputs infer(const Add& op, const Site& site);
Outputs infer(const Concat& op, const Site& site);
Outputs infer(const Slice& op, const Site& site);
Outputs infer(const Reshape& op, const Site& site);
Outputs infer(const ZeroPad& op, const Site& site);
Outputs infer(const Crop& op, const Site& site);
Outputs infer(const Loss& op, const Site& site);
Outputs infer(const L2Penalty& op, const Site& site);
Outputs infer(const Update& op, const Site& site);

// ---- Gradients ----

// What a gradient rule sees. `node` is a copy: emitting nodes moves the graph's own.
struct GradientSite {
  Graph& graph;
  int index;  // of the node in the graph
  Node node;
  const std::vector<ValueId>& output_gradients;
  const std::vector<bool>& wanted;

  ValueId x(std::size_t i) const { return node.inputs[i]; }
  ValueId y(std::size_t i = 0) const { return node.outputs[i]; }
  ValueId dy(std::size_t i = 0) const { return output_gradients[i]; }
  bool wants(std::size_t i) const { return wanted[i]; }
  const Shape& shape_of(ValueId id) const { return graph[id].shape; }

  // Adds a backward node that belongs to the same layer.
  std::vector<ValueId> emit(Op op, std::vector<ValueId> inputs);
  ValueId emit1(Op op, std::vector<ValueId> inputs) {
    return emit(std::move(op), std::move(inputs))[0];
  }
  // dy before the activation that was fused into the node; dy itself when there is none.
  ValueId before_activation(const Activation& activation);
  // Replaces the node's op by one with more outputs and adds those.
  void extend(Op op);
};

// One gradient an input; kNoValue where none is wanted.
using Gradients = std::vector<ValueId>;
// For ops that appear only where nothing is differentiated any more. Throws std::logic_error.
[[noreturn]] Gradients no_gradient(const GradientSite& site);

Gradients differentiate(const Preprocess& op, GradientSite& site);
Gradients differentiate(const Conv& op, GradientSite& site);
Gradients differentiate(const ConvBackwardData& op, GradientSite& site);
Gradients differentiate(const ConvBackwardWeights& op, GradientSite& site);
Gradients differentiate(const ConvMaxPool& op, GradientSite& site);
Gradients differentiate(const ConvMaxPoolBackwardWeights& op, GradientSite& site);
Gradients differentiate(const Dense& op, GradientSite& site);
Gradients differentiate(const DenseBackwardData& op, GradientSite& site);
Gradients differentiate(const DenseBackwardWeights& op, GradientSite& site);
Gradients differentiate(const Pool& op, GradientSite& site);
Gradients differentiate(const PoolBackward& op, GradientSite& site);
Gradients differentiate(const GlobalPool& op, GradientSite& site);
Gradients differentiate(const GlobalPoolBackward& op, GradientSite& site);
Gradients differentiate(const Activate& op, GradientSite& site);
Gradients differentiate(const ActivateBackward& op, GradientSite& site);
Gradients differentiate(const Softmax& op, GradientSite& site);
Gradients differentiate(const SoftmaxBackward& op, GradientSite& site);
Gradients differentiate(const BatchNorm& op, GradientSite& site);
Gradients differentiate(const BatchNormBackward& op, GradientSite& site);
Gradients differentiate(const UpdateStatistics& op, GradientSite& site);
Gradients differentiate(const BatchNormInference& op, GradientSite& site);
Gradients differentiate(const BatchNormInferenceBackward& op, GradientSite& site);
Gradients differentiate(const FoldBatchNorm& op, GradientSite& site);
Gradients differentiate(const Dropout& op, GradientSite& site);
Gradients differentiate(const Add& op, GradientSite& site);
Gradients differentiate(const Concat& op, GradientSite& site);
Gradients differentiate(const Slice& op, GradientSite& site);
Gradients differentiate(const Reshape& op, GradientSite& site);
Gradients differentiate(const ZeroPad& op, GradientSite& site);
Gradients differentiate(const Crop& op, GradientSite& site);
Gradients differentiate(const Loss& op, GradientSite& site);
Gradients differentiate(const L2Penalty& op, GradientSite& site);
Gradients differentiate(const Update& op, GradientSite& site);

}  // namespace trainer::graph::rules
