// The rules of each operation, one overload an op, defined in graph/ops/. There is no catch-all
// overload: an op without a rule does not compile.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/error.h"
#include "graph/graph.h"

namespace trainer::graph::rules {

// ---- Names ----

const char* name(const Preprocess& op);
const char* name(const Conv& op);
const char* name(const ConvBackwardData& op);
const char* name(const ConvBackwardWeights& op);
const char* name(const ConvMaxPool& op);
const char* name(const ConvMaxPoolBackwardWeights& op);
const char* name(const Dense& op);
const char* name(const DenseBackwardData& op);
const char* name(const DenseBackwardWeights& op);
const char* name(const Pool& op);
const char* name(const PoolBackward& op);
const char* name(const GlobalPool& op);
const char* name(const GlobalPoolBackward& op);
const char* name(const Activate& op);
const char* name(const ActivateBackward& op);
const char* name(const Softmax& op);
const char* name(const SoftmaxBackward& op);
const char* name(const BatchNorm& op);
const char* name(const BatchNormBackward& op);
const char* name(const UpdateStatistics& op);
const char* name(const BatchNormInference& op);
const char* name(const BatchNormInferenceBackward& op);
const char* name(const FoldBatchNorm& op);
const char* name(const Dropout& op);
const char* name(const GroupNorm& op);
const char* name(const GroupNormBackward& op);
const char* name(const Multiply& op);
const char* name(const AddBias& op);
const char* name(const SumProduct& op);
const char* name(const UpSample& op);
const char* name(const UpSampleBackward& op);
const char* name(const Add& op);
const char* name(const Concat& op);
const char* name(const Slice& op);
const char* name(const Reshape& op);
const char* name(const ZeroPad& op);
const char* name(const Crop& op);
const char* name(const Loss& op);
const char* name(const ClassRank& op);
const char* name(const L2Penalty& op);
const char* name(const Update& op);

// The attributes, for printing: "3x3 stride 2 relu".
std::string text(const Preprocess& op);
std::string text(const Conv& op);
std::string text(const ConvBackwardData& op);
std::string text(const ConvBackwardWeights& op);
std::string text(const ConvMaxPool& op);
std::string text(const ConvMaxPoolBackwardWeights& op);
std::string text(const Dense& op);
std::string text(const DenseBackwardData& op);
std::string text(const DenseBackwardWeights& op);
std::string text(const Pool& op);
std::string text(const PoolBackward& op);
std::string text(const GlobalPool& op);
std::string text(const GlobalPoolBackward& op);
std::string text(const Activate& op);
std::string text(const ActivateBackward& op);
std::string text(const Softmax& op);
std::string text(const SoftmaxBackward& op);
std::string text(const BatchNorm& op);
std::string text(const BatchNormBackward& op);
std::string text(const UpdateStatistics& op);
std::string text(const BatchNormInference& op);
std::string text(const BatchNormInferenceBackward& op);
std::string text(const FoldBatchNorm& op);
std::string text(const Dropout& op);
std::string text(const GroupNorm& op);
std::string text(const GroupNormBackward& op);
std::string text(const Multiply& op);
std::string text(const AddBias& op);
std::string text(const SumProduct& op);
std::string text(const UpSample& op);
std::string text(const UpSampleBackward& op);
std::string text(const Add& op);
std::string text(const Concat& op);
std::string text(const Slice& op);
std::string text(const Reshape& op);
std::string text(const ZeroPad& op);
std::string text(const Crop& op);
std::string text(const Loss& op);
std::string text(const ClassRank& op);
std::string text(const L2Penalty& op);
std::string text(const Update& op);

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
// Input i, which must be of floats.
const Typed& floats(const Site& site, std::size_t i);
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
Outputs infer(const GroupNorm& op, const Site& site);
Outputs infer(const GroupNormBackward& op, const Site& site);
Outputs infer(const Multiply& op, const Site& site);
Outputs infer(const AddBias& op, const Site& site);
Outputs infer(const SumProduct& op, const Site& site);
Outputs infer(const UpSample& op, const Site& site);
Outputs infer(const UpSampleBackward& op, const Site& site);
Outputs infer(const Add& op, const Site& site);
Outputs infer(const Concat& op, const Site& site);
Outputs infer(const Slice& op, const Site& site);
Outputs infer(const Reshape& op, const Site& site);
Outputs infer(const ZeroPad& op, const Site& site);
Outputs infer(const Crop& op, const Site& site);
Outputs infer(const Loss& op, const Site& site);
Outputs infer(const ClassRank& op, const Site& site);
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
Gradients differentiate(const GroupNorm& op, GradientSite& site);
Gradients differentiate(const GroupNormBackward& op, GradientSite& site);
Gradients differentiate(const Multiply& op, GradientSite& site);
Gradients differentiate(const AddBias& op, GradientSite& site);
Gradients differentiate(const SumProduct& op, GradientSite& site);
Gradients differentiate(const UpSample& op, GradientSite& site);
Gradients differentiate(const UpSampleBackward& op, GradientSite& site);
Gradients differentiate(const Add& op, GradientSite& site);
Gradients differentiate(const Concat& op, GradientSite& site);
Gradients differentiate(const Slice& op, GradientSite& site);
Gradients differentiate(const Reshape& op, GradientSite& site);
Gradients differentiate(const ZeroPad& op, GradientSite& site);
Gradients differentiate(const Crop& op, GradientSite& site);
Gradients differentiate(const Loss& op, GradientSite& site);
Gradients differentiate(const ClassRank& op, GradientSite& site);
Gradients differentiate(const L2Penalty& op, GradientSite& site);
Gradients differentiate(const Update& op, GradientSite& site);

// ---- Work and memory ----

// What the rules below see: the shapes of a node's values.
struct Operands {
  const Graph& graph;
  const Node& node;
  const Shape& input(std::size_t i) const { return graph[node.inputs[i]].shape; }
  const Shape& output(std::size_t i) const { return graph[node.outputs[i]].shape; }
};

// Multiply-accumulates times two of one sample. Only convolutions and dense layers count: the rest
// is bound by memory, not by arithmetic.
std::int64_t flops(const Preprocess& op, const Operands& at);
std::int64_t flops(const Conv& op, const Operands& at);
std::int64_t flops(const ConvBackwardData& op, const Operands& at);
std::int64_t flops(const ConvBackwardWeights& op, const Operands& at);
std::int64_t flops(const ConvMaxPool& op, const Operands& at);
std::int64_t flops(const ConvMaxPoolBackwardWeights& op, const Operands& at);
std::int64_t flops(const Dense& op, const Operands& at);
std::int64_t flops(const DenseBackwardData& op, const Operands& at);
std::int64_t flops(const DenseBackwardWeights& op, const Operands& at);
std::int64_t flops(const Pool& op, const Operands& at);
std::int64_t flops(const PoolBackward& op, const Operands& at);
std::int64_t flops(const GlobalPool& op, const Operands& at);
std::int64_t flops(const GlobalPoolBackward& op, const Operands& at);
std::int64_t flops(const Activate& op, const Operands& at);
std::int64_t flops(const ActivateBackward& op, const Operands& at);
std::int64_t flops(const Softmax& op, const Operands& at);
std::int64_t flops(const SoftmaxBackward& op, const Operands& at);
std::int64_t flops(const BatchNorm& op, const Operands& at);
std::int64_t flops(const BatchNormBackward& op, const Operands& at);
std::int64_t flops(const UpdateStatistics& op, const Operands& at);
std::int64_t flops(const BatchNormInference& op, const Operands& at);
std::int64_t flops(const BatchNormInferenceBackward& op, const Operands& at);
std::int64_t flops(const FoldBatchNorm& op, const Operands& at);
std::int64_t flops(const Dropout& op, const Operands& at);
std::int64_t flops(const GroupNorm& op, const Operands& at);
std::int64_t flops(const GroupNormBackward& op, const Operands& at);
std::int64_t flops(const Multiply& op, const Operands& at);
std::int64_t flops(const AddBias& op, const Operands& at);
std::int64_t flops(const SumProduct& op, const Operands& at);
std::int64_t flops(const UpSample& op, const Operands& at);
std::int64_t flops(const UpSampleBackward& op, const Operands& at);
std::int64_t flops(const Add& op, const Operands& at);
std::int64_t flops(const Concat& op, const Operands& at);
std::int64_t flops(const Slice& op, const Operands& at);
std::int64_t flops(const Reshape& op, const Operands& at);
std::int64_t flops(const ZeroPad& op, const Operands& at);
std::int64_t flops(const Crop& op, const Operands& at);
std::int64_t flops(const Loss& op, const Operands& at);
std::int64_t flops(const ClassRank& op, const Operands& at);
std::int64_t flops(const L2Penalty& op, const Operands& at);
std::int64_t flops(const Update& op, const Operands& at);

// The input whose memory output `output` shares, or -1.
int alias(const Preprocess& op, int output);
int alias(const Conv& op, int output);
int alias(const ConvBackwardData& op, int output);
int alias(const ConvBackwardWeights& op, int output);
int alias(const ConvMaxPool& op, int output);
int alias(const ConvMaxPoolBackwardWeights& op, int output);
int alias(const Dense& op, int output);
int alias(const DenseBackwardData& op, int output);
int alias(const DenseBackwardWeights& op, int output);
int alias(const Pool& op, int output);
int alias(const PoolBackward& op, int output);
int alias(const GlobalPool& op, int output);
int alias(const GlobalPoolBackward& op, int output);
int alias(const Activate& op, int output);
int alias(const ActivateBackward& op, int output);
int alias(const Softmax& op, int output);
int alias(const SoftmaxBackward& op, int output);
int alias(const BatchNorm& op, int output);
int alias(const BatchNormBackward& op, int output);
int alias(const UpdateStatistics& op, int output);
int alias(const BatchNormInference& op, int output);
int alias(const BatchNormInferenceBackward& op, int output);
int alias(const FoldBatchNorm& op, int output);
int alias(const Dropout& op, int output);
int alias(const GroupNorm& op, int output);
int alias(const GroupNormBackward& op, int output);
int alias(const Multiply& op, int output);
int alias(const AddBias& op, int output);
int alias(const SumProduct& op, int output);
int alias(const UpSample& op, int output);
int alias(const UpSampleBackward& op, int output);
int alias(const Add& op, int output);
int alias(const Concat& op, int output);
int alias(const Slice& op, int output);
int alias(const Reshape& op, int output);
int alias(const ZeroPad& op, int output);
int alias(const Crop& op, int output);
int alias(const Loss& op, int output);
int alias(const ClassRank& op, int output);
int alias(const L2Penalty& op, int output);
int alias(const Update& op, int output);

}  // namespace trainer::graph::rules
