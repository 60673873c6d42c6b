#include <algorithm>
#include <optional>

#include "backend/cpu/dnnl.h"
#include "backend/cpu/ops/own_conv.h"

namespace trainer::backend::cpu {
namespace {

using dnnl::memory;
using dnnl::prop_kind;

constexpr dnnl::algorithm kDirect = dnnl::algorithm::convolution_direct;

// oneDNN takes dimensions in the order NCHW; the descriptor gives the layout.
struct Problem {
  memory::dims strides, dilates, pad_before, pad_after;
  bool grouped;
  memory::dims kernel_dims;
  memory::desc kernel;  // the format of the variables: HWIO float32
};

// A kernel [kh, kw, in / groups, out] has its outputs group by group: the format hwigo.
Problem make_problem(const graph::Window& window, std::int64_t groups, const Shape& kernel) {
  using tag = memory::format_tag;
  Problem p;
  p.strides = {window.stride[0], window.stride[1]};
  p.dilates = {window.dilation[0] - 1, window.dilation[1] - 1};
  p.pad_before = {window.pad_before[0], window.pad_before[1]};
  p.pad_after = {window.pad_after[0], window.pad_after[1]};
  p.grouped = groups > 1;
  p.kernel_dims = p.grouped
                      ? memory::dims{groups, kernel[3] / groups, kernel[2], kernel[0], kernel[1]}
                      : memory::dims{kernel[3], kernel[2], kernel[0], kernel[1]};
  p.kernel = {p.kernel_dims, memory::data_type::f32, p.grouped ? tag::hwigo : tag::hwio};
  return p;
}

memory::desc any(const memory::dims& dims, DType type) {
  return {dims, dnnl_type(type), memory::format_tag::any};
}

memory::desc bias_desc(std::int64_t channels) {
  return {{channels}, memory::data_type::f32, memory::format_tag::x};
}

// Chooses the first pair of layouts for which oneDNN has an optimised implementation; takes its
// slow reference only if there is no other.
template <class Make>
auto choose(const std::vector<std::pair<Layout, Layout>>& layouts, const Make& make) {
  using Result = decltype(make(layouts[0].first, layouts[0].second));
  struct Choice {
    Result descriptor;
    Layout x, y;
  };
  std::optional<Choice> reference;
  for (const auto& [x, y] : layouts) {
    try {
      Choice choice{make(x, y), x, y};
      if (!dnnl_is_reference(choice.descriptor.impl_info_str())) return choice;
      if (!reference) reference = choice;
    } catch (const dnnl::error& error) {
      if (error.status != dnnl_unimplemented) throw;
    }
  }
  if (!reference) throw DeviceError("oneDNN has no implementation of this convolution");
  return *reference;
}

// Returns the layouts of (x, y) to try, in order. Images of few channels are faster in planar
// layout.
std::vector<std::pair<Layout, Layout>> layout_pairs(const Operand& x) {
  if (x.layout == Layout::kPlanar || (x.layout == Layout::kPlain && x.c() <= 4)) {
    return {{Layout::kPlanar, Layout::kBlocked},
            {Layout::kBlocked, Layout::kBlocked},
            {Layout::kPlain, Layout::kPlain}};
  }
  return {{Layout::kBlocked, Layout::kBlocked}, {Layout::kPlain, Layout::kPlain}};
}

Operand shaped(const Shape& shape, Layout layout, DType type) {
  return {{-1, type, shape}, layout};
}

dnnl::convolution_forward::primitive_desc forward_descriptor(
    const Lowering& l, const Problem& p, const Operand& x, const Operand& y, bool bias,
    const dnnl::primitive_attr& attributes) {
  const memory::desc kernel = any(p.kernel_dims, x.type);
  const memory::desc b = bias ? bias_desc(y.c()) : memory::desc();
  return {{prop_kind::forward_training, kDirect, dnnl_desc(x, l), kernel, b, dnnl_desc(y, l),
           p.strides, p.dilates, p.pad_before, p.pad_after},
          attributes,
          dnnl_engine()};
}

// Returns the forward descriptor that backward descriptors need as a hint.
dnnl::convolution_forward::primitive_desc hint(const Lowering& l, const Problem& p,
                                               const Operand& x, const Operand& y) {
  return forward_descriptor(l, p, x, y, false, {});
}

Shape output_shape(const graph::Window& window, const Shape& x, std::int64_t channels) {
  return {x[0], window.output(x[1], 0), window.output(x[2], 1), channels};
}

// Returns whether a tap of the kernel meets a pixel of the image along an axis. A tap that does not
// meets only padding.
bool meets_image(const graph::Window& w, int axis, std::int64_t tap, std::int64_t extent) {
  const std::int64_t first = tap * w.dilation[axis] - w.pad_before[axis];
  for (std::int64_t i = 0; i < w.output(extent, axis); ++i) {
    const std::int64_t pixel = first + i * w.stride[axis];
    if (pixel >= 0 && pixel < extent) return true;
  }
  return false;
}

// Adds an instruction that makes the gradient of taps that meet only padding 0, if there are any.
// oneDNN's kernels for bfloat16 do not write it, and Winograd rounds it.
void clear_padding_taps(Lowering& l, const graph::Window& w, const Shape& x, const Shape& kernel) {
  const std::int64_t tap_size = kernel[2] * kernel[3];
  std::vector<std::int64_t> offsets;
  for (std::int64_t i = 0; i < w.size[0]; ++i) {
    for (std::int64_t j = 0; j < w.size[1]; ++j) {
      if (meets_image(w, 0, i, x[1]) && meets_image(w, 1, j, x[2])) continue;
      offsets.push_back((i * w.size[1] + j) * tap_size);
    }
  }
  if (offsets.empty()) return;
  l.emit("clear", [=, buffer = l.output(0, Layout::kPlain).buffer](const CallContext& c) {
    for (const std::int64_t offset : offsets) {
      std::fill_n(c.at<float>(buffer) + offset, tap_size, 0.0f);
    }
  });
}

}  // namespace

template <>
void lower(const graph::Conv& op, Lowering& l) {
  const Operand x0 = l.input(0);
  const Shape kernel = l.input_shape(1);
  const Shape y_shape = output_shape(op.window, x0.shape, kernel[3]);
  if (winograd_chosen(l, Direction::kForward, op.window, op.groups, x0.type, x0.shape, y_shape,
                      kernel)) {
    return lower_winograd(op, l);
  }
  if (amx_chosen(l, op.window, op.groups, x0.type, kernel)) return lower_amx(op, l);
  const Problem p = make_problem(op.window, op.groups, kernel);
  const dnnl::primitive_attr attributes = dnnl_attributes(op.activation);
  const auto choice = choose(layout_pairs(x0), [&](Layout in, Layout out) {
    return forward_descriptor(l, p, shaped(x0.shape, in, x0.type), shaped(y_shape, out, x0.type),
                              op.bias, attributes);
  });
  const Operand x = l.input(0, choice.x);
  const BufferId weights = dnnl_weights(l, 1, p.kernel, choice.descriptor.weights_desc());
  const Operand y = l.output(0, choice.y);
  std::vector<DnnlArgument> arguments{{DNNL_ARG_SRC, choice.descriptor.src_desc(), x.buffer},
                                      {DNNL_ARG_WEIGHTS, choice.descriptor.weights_desc(), weights},
                                      {DNNL_ARG_DST, choice.descriptor.dst_desc(), y.buffer}};
  if (op.bias) {
    arguments.push_back({DNNL_ARG_BIAS, bias_desc(kernel[3]), l.input(2, Layout::kPlain).buffer});
  }
  emit_dnnl<dnnl::convolution_forward>(l, choice.descriptor, arguments);
}

template <>
void lower(const graph::ConvBackwardData& op, Lowering& l) {
  const Operand dy0 = l.input(0);
  const Shape kernel = l.input_shape(1);
  const Shape x_shape = op.input.with_batch(l.samples());
  if (winograd_chosen(l, Direction::kBackwardData, op.window, op.groups, dy0.type, x_shape,
                      dy0.shape, kernel)) {
    return lower_winograd(op, l);
  }
  if (amx_chosen(l, op.window, op.groups, dy0.type, kernel)) return lower_amx(op, l);
  const Problem p = make_problem(op.window, op.groups, kernel);
  const std::vector<std::pair<Layout, Layout>> layouts{{Layout::kBlocked, Layout::kBlocked},
                                                       {Layout::kPlain, Layout::kPlain}};
  const auto choice = choose(layouts, [&](Layout in, Layout out) {
    const Operand dx = shaped(x_shape, in, dy0.type), dy = shaped(dy0.shape, out, dy0.type);
    return dnnl::convolution_backward_data::primitive_desc(
        {kDirect, dnnl_desc(dx, l), any(p.kernel_dims, dy0.type), dnnl_desc(dy, l), p.strides,
         p.dilates, p.pad_before, p.pad_after},
        dnnl_attributes({}), dnnl_engine(), hint(l, p, dx, dy));
  });
  const Operand dy = l.input(0, choice.y);
  const BufferId weights = dnnl_weights(l, 1, p.kernel, choice.descriptor.weights_desc());
  const Operand dx = l.output(0, choice.x);
  emit_dnnl<dnnl::convolution_backward_data>(
      l, choice.descriptor,
      {{DNNL_ARG_DIFF_DST, choice.descriptor.diff_dst_desc(), dy.buffer},
       {DNNL_ARG_WEIGHTS, choice.descriptor.weights_desc(), weights},
       {DNNL_ARG_DIFF_SRC, choice.descriptor.diff_src_desc(), dx.buffer}});
}

template <>
void lower(const graph::ConvBackwardWeights& op, Lowering& l) {
  const Operand x0 = l.input(0);
  const Operand dy0 = l.input(1);
  const Shape& kernel = op.kernel;
  if (winograd_chosen(l, Direction::kBackwardWeights, op.window, op.groups, x0.type, x0.shape,
                      dy0.shape, kernel)) {
    lower_winograd(op, l);
    return clear_padding_taps(l, op.window, x0.shape, kernel);
  }
  if (amx_chosen(l, op.window, op.groups, x0.type, kernel)) return lower_amx(op, l);
  if (depthwise_weights_chosen(op)) return lower_depthwise_weights(op, l);
  const Problem p = make_problem(op.window, op.groups, kernel);
  const auto choice = choose(layout_pairs(x0), [&](Layout in, Layout out) {
    const Operand x = shaped(x0.shape, in, x0.type), dy = shaped(dy0.shape, out, dy0.type);
    return dnnl::convolution_backward_weights::primitive_desc(
        {kDirect, dnnl_desc(x, l), any(p.kernel_dims, DType::kFloat32),
         op.bias ? bias_desc(kernel[3]) : memory::desc(), dnnl_desc(dy, l), p.strides, p.dilates,
         p.pad_before, p.pad_after},
        dnnl_attributes({}), dnnl_engine(), hint(l, p, x, dy));
  });
  const Operand x = l.input(0, choice.x);
  const Operand dy = l.input(1, choice.y);
  emit_dnnl_weights_gradient<dnnl::convolution_backward_weights>(l, choice.descriptor, p.kernel,
                                                                 x.buffer, dy.buffer, op.bias);
  clear_padding_taps(l, op.window, x0.shape, kernel);
}

}  // namespace trainer::backend::cpu
