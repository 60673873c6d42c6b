// A convolution of images of few channels and its max pooling, and the gradients of its weights.
// Our own kernels keep the convolution's outputs of a pooled pixel in registers.
#include "backend/cpu/fuse/groups.h"
#include "backend/fuse/pattern.h"

namespace trainer::backend::cpu {
namespace {

using graph::ValueId;
using graph::Window;
using Extent = std::array<std::int64_t, 2>;

// The maximum number of channels of the images. Libraries are faster with more.
constexpr std::int64_t kMaxChannels = 4;

bool fits(const Window& window, std::int64_t groups, const graph::Activation& activation) {
  const bool square =
      window.size == Extent{1, 1} || window.size == Extent{3, 3} || window.size == Extent{5, 5};
  return square && window.stride == Extent{1, 1} && window.dilation == Extent{1, 1} &&
         groups == 1 && (activation.linear() || activation.kind == graph::Activation::Kind::kRelu);
}

// Padding after the image that is negative leaves pixels of it unread.
bool fits(graph::Pool::Kind kind, const Window& window) {
  return kind == graph::Pool::Kind::kMax && window.size == Extent{2, 2} &&
         window.stride == Extent{2, 2} && window.dilation == Extent{1, 1} &&
         window.pad_before == Extent{0, 0} && window.pad_after[0] <= 0 && window.pad_after[1] <= 0;
}

// The kernels compute no gradient of the images.
bool are_images(const graph::Graph& graph, ValueId x) {
  return graph[x].shape[3] <= kMaxChannels && depends_on_inputs_only(graph, x);
}

void fuse_forward(Grouping& grouping, int at) {
  const graph::Graph& graph = grouping.graph();
  const graph::Node& node = graph.nodes[at];
  const auto* conv = std::get_if<graph::Conv>(&node.op);
  if (conv == nullptr || !fits(conv->window, conv->groups, conv->activation)) return;
  const std::optional<int> next = only_consumer(graph, node.outputs[0]);
  if (!next || !are_images(graph, node.inputs[0])) return;
  const graph::Node& reader = graph.nodes[*next];
  const auto* pool = std::get_if<graph::Pool>(&reader.op);
  if (pool == nullptr || !fits(pool->kind, pool->window)) return;
  grouping.take({at, *next}, at, ConvMaxPool{&node, &reader});
}

void fuse_backward(Grouping& grouping, int at) {
  const graph::Graph& graph = grouping.graph();
  const graph::Node& node = graph.nodes[at];
  const auto* conv = std::get_if<graph::ConvBackwardWeights>(&node.op);
  if (conv == nullptr || !only_consumer(graph, node.inputs[1])) return;
  const auto* pool = made_by<graph::PoolBackward>(graph, node.inputs[1]);
  if (pool == nullptr || !fits(pool->kind, pool->window)) return;
  if (!fits(conv->window, conv->groups, pool->activation)) return;
  if (!are_images(graph, node.inputs[0])) return;
  const int before = graph.producer(node.inputs[1]);
  grouping.take({before, at}, at, ConvMaxPoolBackwardWeights{&node, &graph.nodes[before]});
}

}  // namespace

void fuse_conv_max_pools(Grouping& grouping) {
  for (int i = 0; i < std::ssize(grouping.graph().nodes); ++i) {
    fuse_forward(grouping, i);
    fuse_backward(grouping, i);
  }
}

}  // namespace trainer::backend::cpu
