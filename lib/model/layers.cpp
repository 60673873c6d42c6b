// Converts layers of the config to nodes and parameters; there is one overload per layer.
#include "model/layers.h"

#include <algorithm>
#include <utility>

#include "model/padding.h"
#include "model/token_layers.h"

namespace trainer::model {
namespace {

using graph::Graph;
using graph::Role;
using graph::Value;
using graph::ValueId;

ValueId activated(const LayerSite& site, ValueId x, config::Activation function) {
  if (function == config::Activation::kLinear) return x;
  if (function == config::Activation::kSoftmax) return emit(site, graph::Softmax{}, {x});
  return emit(site, graph::Activate{resolve_activation(function)}, {x});
}

// Emits an op with a kernel, its bias and its activation, for a layer that has them as options.
template <class Op, class Layer>
ValueId emit_biased(LayerSite& site, Op op, std::vector<ValueId> inputs, const Layer& layer,
                    std::int64_t outputs) {
  op.bias = layer.use_bias;
  if (op.bias) inputs.push_back(vector_parameter(site, "bias", outputs, layer.bias_initializer));
  return activated(site, emit(site, std::move(op), std::move(inputs)), layer.activation);
}

// Divides the channels by the groups. Returns them unchanged for groups that the op's rule rejects.
std::int64_t per_group(std::int64_t channels, std::int64_t groups) {
  return groups > 0 ? channels / groups : channels;
}

double area(const config::Pair& size) { return static_cast<double>(size.height * size.width); }

ValueId add(const config::ConvLayer& layer, LayerSite& site) {
  expect_positive(site, "filters", layer.filters);
  const ValueId x = only_input(site);
  const std::int64_t channels = per_group(count_channels(site, x), layer.groups);
  const auto window = resolve_window(layer.kernel_size, layer.strides, layer.dilation_rate,
                                     layer.padding, site.graph[x].shape);
  const double pixels = area(layer.kernel_size);
  const Fans fans{pixels * static_cast<double>(channels),
                  pixels * static_cast<double>(layer.filters)};
  const ValueId kernel = parameter(
      site, "kernel", {layer.kernel_size.height, layer.kernel_size.width, channels, layer.filters},
      fans, layer.kernel_initializer, layer.kernel_regularizer);
  return emit_biased(site, graph::Conv{window, layer.groups, false, {}}, {x, kernel}, layer,
                     layer.filters);
}

// Adds the kernel of a depthwise convolution. Keras's kernel is [kh, kw, in, multiplier], and its
// fans follow from that shape.
ValueId depthwise_kernel(LayerSite& site, const config::Pair& size, std::int64_t channels,
                         std::int64_t multiplier, const config::Initializer& initializer,
                         const config::Regularizer& penalty) {
  const Fans fans{area(size) * static_cast<double>(channels),
                  area(size) * static_cast<double>(multiplier)};
  return parameter(site, "depthwise_kernel", {size.height, size.width, 1, channels * multiplier},
                   fans, initializer, penalty);
}

ValueId add(const config::DepthwiseConvLayer& layer, LayerSite& site) {
  expect_positive(site, "depth_multiplier", layer.depth_multiplier);
  const ValueId x = only_input(site);
  const std::int64_t channels = count_channels(site, x);
  const auto window = resolve_window(layer.kernel_size, layer.strides, layer.dilation_rate,
                                     layer.padding, site.graph[x].shape);
  const ValueId kernel = depthwise_kernel(site, layer.kernel_size, channels, layer.depth_multiplier,
                                          layer.depthwise_initializer, layer.depthwise_regularizer);
  return emit_biased(site, graph::Conv{window, channels, false, {}}, {x, kernel}, layer,
                     channels * layer.depth_multiplier);
}

ValueId add(const config::SeparableConvLayer& layer, LayerSite& site) {
  expect_positive(site, "filters", layer.filters);
  expect_positive(site, "depth_multiplier", layer.depth_multiplier);
  const ValueId x = only_input(site);
  const std::int64_t channels = count_channels(site, x);
  const std::int64_t middle = channels * layer.depth_multiplier;
  const auto window = resolve_window(layer.kernel_size, layer.strides, layer.dilation_rate,
                                     layer.padding, site.graph[x].shape);
  const ValueId depthwise =
      depthwise_kernel(site, layer.kernel_size, channels, layer.depth_multiplier,
                       layer.depthwise_initializer, layer.depthwise_regularizer);
  const Fans fans{static_cast<double>(middle), static_cast<double>(layer.filters)};
  const ValueId pointwise = parameter(site, "pointwise_kernel", {1, 1, middle, layer.filters}, fans,
                                      layer.pointwise_initializer, layer.pointwise_regularizer);
  const ValueId between = emit(site, graph::Conv{window, channels, false, {}}, {x, depthwise});
  return emit_biased(site, graph::Conv{}, {between, pointwise}, layer, layer.filters);
}

ValueId pool(LayerSite& site, graph::Pool::Kind kind, const config::Pair& size,
             const std::optional<config::Pair>& strides, const config::Padding& padding) {
  const ValueId x = only_input(site);
  const auto window =
      resolve_window(size, strides.value_or(size), {1, 1}, padding, site.graph[x].shape);
  return emit(site, graph::Pool{kind, window, false}, {x});
}

ValueId add(const config::MaxPoolLayer& layer, LayerSite& site) {
  return pool(site, graph::Pool::Kind::kMax, layer.pool_size, layer.strides, layer.padding);
}

ValueId add(const config::AveragePoolLayer& layer, LayerSite& site) {
  return pool(site, graph::Pool::Kind::kAverage, layer.pool_size, layer.strides, layer.padding);
}

// Tokens [tokens, channels] count as an image of one column.
ValueId global_pool(LayerSite& site, graph::Pool::Kind kind, bool keepdims) {
  ValueId x = only_input(site);
  if (const Shape tokens = site.graph[x].shape; tokens.rank() == 3) {
    x = emit(site, graph::Reshape{{kBatch, tokens[1], 1, tokens[2]}}, {x});
  }
  const ValueId y = emit(site, graph::GlobalPool{kind}, {x});
  if (!keepdims) return y;
  return emit(site, graph::Reshape{{kBatch, 1, 1, count_channels(site, x)}}, {y});
}

ValueId add(const config::GlobalAveragePoolLayer& layer, LayerSite& site) {
  return global_pool(site, graph::Pool::Kind::kAverage, layer.keepdims);
}

ValueId add(const config::GlobalMaxPoolLayer& layer, LayerSite& site) {
  return global_pool(site, graph::Pool::Kind::kMax, layer.keepdims);
}

ValueId add(const config::DenseLayer& layer, LayerSite& site) {
  expect_positive(site, "units", layer.units);
  const ValueId x = only_input(site);
  if (const Shape& shape = site.graph[x].shape; shape.rank() == 4) {
    fail(site, "expects [batch, features], but its input is ", to_string(shape),
         "; put flatten or global_average_pool before it");
  }
  const std::int64_t features = count_channels(site, x);
  const Fans fans{static_cast<double>(features), static_cast<double>(layer.units)};
  const ValueId kernel = parameter(site, "kernel", {features, layer.units}, fans,
                                   layer.kernel_initializer, layer.kernel_regularizer);
  return emit_biased(site, graph::Dense{}, {x, kernel}, layer, layer.units);
}

ValueId add(const config::FlattenLayer&, LayerSite& site) {
  const ValueId x = only_input(site);
  return emit(site, graph::Reshape{{kBatch, site.graph[x].shape.elements()}}, {x});
}

ValueId add(const config::ReshapeLayer& layer, LayerSite& site) {
  const ValueId x = only_input(site);
  const std::int64_t elements = site.graph[x].shape.elements();
  std::vector<std::int64_t> dims{kBatch};
  std::int64_t known = 1;
  for (const std::int64_t dim : layer.target_shape) {
    if (dim != -1) known *= dim;
  }
  const auto open = std::ranges::count(layer.target_shape, -1);
  if (open > 1) fail(site, "target_shape has ", open, " entries of -1, expected at most one");
  if (open == 1 && (known <= 0 || elements % known != 0)) {
    fail(site, "target_shape: the other entries make ", known, ", which does not divide the ",
         elements, " numbers of a sample of the input ", to_string(site.graph[x].shape));
  }
  for (const std::int64_t dim : layer.target_shape) {
    dims.push_back(dim == -1 ? elements / known : dim);
  }
  return emit(site, graph::Reshape{Shape(std::move(dims))}, {x});
}

ValueId drop(LayerSite& site, double rate, graph::Dropout::Unit unit) {
  const graph::Dropout op{static_cast<float>(rate), site.dropouts, site.seed, unit};
  const ValueId y = emit(site, op, {only_input(site)});
  ++site.dropouts;
  return y;
}

ValueId add(const config::DropoutLayer& layer, LayerSite& site) {
  return drop(site, layer.rate, graph::Dropout::Unit::kElement);
}

ValueId add(const config::SpatialDropoutLayer& layer, LayerSite& site) {
  return drop(site, layer.rate, graph::Dropout::Unit::kChannel);
}

ValueId add(const config::DropPathLayer& layer, LayerSite& site) {
  return drop(site, layer.rate, graph::Dropout::Unit::kSample);
}

// Adds gamma or beta, as a constant if the layer has none, so that the ops need no second form.
ValueId scale_or_shift(LayerSite& site, const char* suffix, bool present, std::int64_t channels,
                       const config::Initializer& initializer, double constant) {
  if (present) return vector_parameter(site, suffix, channels, initializer);
  Value value = persistent_value(site, suffix, {channels}, Role::kParameter);
  value.initial = {graph::Initial::Kind::kConstant, constant, 0};
  return site.graph.add_value(std::move(value));
}

ValueId statistic(LayerSite& site, const char* suffix, std::int64_t channels, double initial) {
  Value value = persistent_value(site, suffix, {channels}, Role::kStatistic);
  value.initial = {graph::Initial::Kind::kConstant, initial, 0};
  const ValueId id = site.graph.add_value(std::move(value));
  site.info.parameters.push_back(id);
  return id;
}

ValueId add(const config::BatchNormLayer& layer, LayerSite& site) {
  const ValueId x = only_input(site);
  const std::int64_t channels = count_channels(site, x);
  const auto epsilon = static_cast<float>(layer.epsilon);
  const ValueId gamma =
      scale_or_shift(site, "gamma", layer.scale, channels, layer.gamma_initializer, 1);
  const ValueId beta =
      scale_or_shift(site, "beta", layer.center, channels, layer.beta_initializer, 0);
  const ValueId mean = statistic(site, "moving_mean", channels, 0);
  const ValueId variance = statistic(site, "moving_variance", channels, 1);
  const auto made = site.graph.add(graph::BatchNorm{epsilon, {}}, {x, gamma, beta}, site.info.name,
                                   site.info.loc);
  site.graph.add(graph::UpdateStatistics{static_cast<float>(layer.momentum), epsilon},
                 {mean, variance, made[1], made[2]}, site.info.name, site.info.loc);
  return made[0];
}

ValueId group_norm(const config::GroupNormLayer& layer, bool per_pixel, LayerSite& site) {
  const ValueId x = only_input(site);
  const std::int64_t channels = count_channels(site, x);
  const ValueId gamma =
      scale_or_shift(site, "gamma", layer.scale, channels, layer.gamma_initializer, 1);
  const ValueId beta =
      scale_or_shift(site, "beta", layer.center, channels, layer.beta_initializer, 0);
  const std::int64_t groups = layer.groups == -1 ? channels : layer.groups;
  return emit(site, graph::GroupNorm{groups, per_pixel, static_cast<float>(layer.epsilon)},
              {x, gamma, beta});
}

ValueId add(const config::GroupNormLayer& layer, LayerSite& site) {
  return group_norm(layer, false, site);
}

ValueId add(const config::LayerNormLayer& layer, LayerSite& site) {
  return group_norm({1, layer.epsilon, layer.center, layer.scale, layer.beta_initializer,
                     layer.gamma_initializer},
                    true, site);
}

// Returns the output extent of a transposed convolution as in Keras: "same" pads the pixels by
// which the window is larger than the stride.
std::int64_t enlarged(std::int64_t input, std::int64_t size, std::int64_t stride, bool same) {
  return input * stride + (same ? 0 : std::max<std::int64_t>(size - stride, 0));
}

ValueId add(const config::ConvTransposeLayer& layer, LayerSite& site) {
  expect_positive(site, "filters", layer.filters);
  const ValueId x = only_input(site);
  const Shape input = site.graph[x].shape;
  if (input.rank() != 4) {
    fail(site, "expects an image [batch, height, width, channels], but its input is ",
         to_string(input), "; move it before the layer that flattens, or add a reshape");
  }
  if (layer.padding.kind == config::Padding::Kind::kExplicit) {
    fail(site, "padding is a list, expected valid or same");
  }
  const bool same = layer.padding.kind == config::Padding::Kind::kSame;
  const Shape output{
      kBatch, enlarged(input[1], layer.kernel_size.height, layer.strides.height, same),
      enlarged(input[2], layer.kernel_size.width, layer.strides.width, same), layer.filters};
  // A transposed convolution is the gradient with respect to the input of a convolution with this
  // window.
  const auto window =
      resolve_window(layer.kernel_size, layer.strides, {1, 1}, layer.padding, output);
  const double pixels = area(layer.kernel_size);
  // Keras takes the fans from the kernel's shape, [height, width, filters, channels].
  const Fans fans{pixels * static_cast<double>(layer.filters),
                  pixels * static_cast<double>(input[3])};
  const ValueId kernel = parameter(
      site, "kernel", {layer.kernel_size.height, layer.kernel_size.width, layer.filters, input[3]},
      fans, layer.kernel_initializer, layer.kernel_regularizer);
  ValueId y = emit(site, graph::ConvBackwardData{window, 1, output}, {x, kernel});
  if (layer.use_bias) {
    const ValueId bias = vector_parameter(site, "bias", layer.filters, layer.bias_initializer);
    y = emit(site, graph::AddBias{}, {y, bias});
  }
  return activated(site, y, layer.activation);
}

ValueId add(const config::UpSamplingLayer& layer, LayerSite& site) {
  return emit(site, graph::UpSample{layer.interpolation, layer.size.height, layer.size.width},
              {only_input(site)});
}

ValueId add(const config::MultiplyLayer&, LayerSite& site) {
  return emit(site, graph::Multiply{}, site.inputs);
}

// max(x, 0) + alpha * min(x, 0)
ValueId add(const config::PreluLayer& layer, LayerSite& site) {
  using Kind = graph::Activation::Kind;
  const ValueId x = only_input(site);
  std::vector<std::int64_t> dims = site.graph[x].shape.dims();
  dims.erase(dims.begin());
  if (layer.shared) dims = {dims.back()};
  const Shape shape{dims};
  // Keras computes the fans of [height, width, channels] as those of a window of height x width.
  const auto last = static_cast<double>(dims.back());
  Fans fans{last, last};
  if (dims.size() == 3) {
    const auto rows = static_cast<double>(dims[0]);
    fans = {rows * static_cast<double>(dims[1]), rows * last};
  }
  const ValueId alpha =
      parameter(site, "alpha", shape, fans, layer.alpha_initializer, layer.alpha_regularizer);
  const ValueId above = emit(site, graph::Activate{{Kind::kRelu, 0}}, {x});
  const ValueId below = emit(site, graph::Activate{{Kind::kNegativePart, 0}}, {x});
  return emit(site, graph::Add{}, {above, emit(site, graph::Multiply{}, {below, alpha})});
}

ValueId add(const config::LayerScaleLayer& layer, LayerSite& site) {
  const ValueId x = only_input(site);
  config::Initializer initializer{config::Initializer::Kind::kConstant};
  initializer.value = layer.initial;
  const ValueId gamma = vector_parameter(site, "gamma", count_channels(site, x), initializer);
  return emit(site, graph::Multiply{}, {x, gamma});
}

ValueId add(const config::GlobalResponseNormLayer& layer, LayerSite& site) {
  const ValueId x = only_input(site);
  const std::int64_t channels = count_channels(site, x);
  const config::Initializer zeros{config::Initializer::Kind::kZeros};
  const ValueId gamma = vector_parameter(site, "gamma", channels, zeros);
  const ValueId beta = vector_parameter(site, "beta", channels, zeros);
  const ValueId factors = site.graph.add(graph::ResponseNorm{static_cast<float>(layer.epsilon)},
                                         {x, gamma}, site.info.name, site.info.loc)[0];
  return emit(site, graph::AddBias{}, {emit(site, graph::Multiply{}, {x, factors}), beta});
}

ValueId add(const config::ActivationLayer& layer, LayerSite& site) {
  const bool has_alpha = layer.function == config::Activation::kLeakyRelu ||
                         layer.function == config::Activation::kElu;
  if (layer.alpha && !has_alpha) fail(site, "only leaky_relu and elu have an alpha; remove it");
  const ValueId x = only_input(site);
  if (layer.function == config::Activation::kSoftmax) return emit(site, graph::Softmax{}, {x});
  return emit(site, graph::Activate{resolve_activation(layer.function, layer.alpha)}, {x});
}

ValueId add(const config::ReluLayer& layer, LayerSite& site) {
  const auto function = layer.max_value ? config::Activation::kRelu6 : config::Activation::kRelu;
  return emit(site, graph::Activate{resolve_activation(function)}, {only_input(site)});
}

ValueId add(const config::ZeroPadLayer& layer, LayerSite& site) {
  const auto& p = layer.padding;
  return emit(site, graph::ZeroPad{p[0], p[1], p[2], p[3]}, {only_input(site)});
}

ValueId add(const config::AddLayer&, LayerSite& site) {
  return emit(site, graph::Add{}, site.inputs);
}

ValueId add(const config::ConcatenateLayer&, LayerSite& site) {
  return emit(site, graph::Concat{}, site.inputs);
}

[[noreturn]] ValueId add(const config::RepeatLayer&, LayerSite& site) {
  fail(site, "a group of layers was not written out. Internal error; please report it");
}

[[noreturn]] ValueId add(const config::ResidualLayer&, LayerSite& site) {
  fail(site, "a group of layers was not written out. Internal error; please report it");
}

}  // namespace

graph::Activation resolve_activation(ActivationKind function, std::optional<double> alpha) {
  switch (function) {
    case ActivationKind::kSoftmax:
      return {};
    case ActivationKind::kLeakyRelu:
      return {function, static_cast<float>(alpha.value_or(0.2))};
    case ActivationKind::kElu:
      return {function, static_cast<float>(alpha.value_or(1.0))};
    default:
      return {function, 0};
  }
}

ValueId add_layer(const config::LayerKind& layer, LayerSite& site) {
  return std::visit([&](const auto& each) { return add(each, site); }, layer);
}

}  // namespace trainer::model
