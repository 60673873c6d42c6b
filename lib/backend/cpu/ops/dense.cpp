#include "backend/cpu/dnnl.h"
#include "backend/cpu/lowering.h"

namespace trainer::backend::cpu {
namespace {

using dnnl::memory;
using dnnl::prop_kind;
using tag = memory::format_tag;

memory::desc plain2(std::int64_t rows, std::int64_t columns, DType type) {
  return {{rows, columns}, dnnl_type(type), tag::ab};
}
// oneDNN's dimensions are [units, inputs]; variables hold [inputs, units].
memory::desc stored_kernel(const Shape& kernel) {
  return {{kernel[1], kernel[0]}, memory::data_type::f32, tag::ba};
}
memory::desc any_kernel(const Shape& kernel, DType type) {
  return {{kernel[1], kernel[0]}, dnnl_type(type), tag::any};
}
memory::desc dense_bias_desc(std::int64_t units) {
  return {{units}, memory::data_type::f32, tag::x};
}

dnnl::inner_product_forward::primitive_desc forward(const Operand& x, const Shape& kernel,
                                                    bool bias, DType output,
                                                    const dnnl::primitive_attr& attr) {
  return {{prop_kind::forward_training, plain2(x.n(), x.c(), x.type), any_kernel(kernel, x.type),
           bias ? dense_bias_desc(kernel[1]) : memory::desc(), plain2(x.n(), kernel[1], output)},
          attr,
          dnnl_engine()};
}

// Returns the operand in another type. oneDNN takes x and dy in one type, but logits stay float32
// in a bf16 graph.
BufferId as_type(Lowering& l, const Operand& operand, DType type) {
  if (operand.type == type) return operand.buffer;
  Operand to = operand;
  to.type = type;
  to.buffer = l.scratch(to.shape.elements() * static_cast<std::int64_t>(size_of(type)));
  emit_dnnl_reorder(l, dnnl_desc(operand, l), operand.buffer, dnnl_desc(to, l), to.buffer);
  return to.buffer;
}

}  // namespace

template <>
void lower(const graph::Dense& op, Lowering& l) {
  const Shape kernel = l.input_shape(1);
  const Operand x = l.input(0, Layout::kPlain);
  const Operand y = l.output(0, Layout::kPlain);
  const auto descriptor = forward(x, kernel, op.bias, y.type, dnnl_attributes(op.activation));
  const BufferId weights = dnnl_weights(l, 1, stored_kernel(kernel), descriptor.weights_desc());
  std::vector<DnnlArgument> arguments{{DNNL_ARG_SRC, descriptor.src_desc(), x.buffer},
                                      {DNNL_ARG_WEIGHTS, descriptor.weights_desc(), weights},
                                      {DNNL_ARG_DST, descriptor.dst_desc(), y.buffer}};
  if (op.bias) {
    arguments.push_back(
        {DNNL_ARG_BIAS, dense_bias_desc(kernel[1]), l.input(2, Layout::kPlain).buffer});
  }
  emit_dnnl<dnnl::inner_product_forward>(l, descriptor, arguments);
}

template <>
void lower(const graph::DenseBackwardData& op, Lowering& l) {
  const Shape kernel = l.input_shape(1);
  const DType type = l.output_type(0);
  const BufferId dy = as_type(l, l.input(0, Layout::kPlain), type);
  const Operand dx = l.output(0, Layout::kPlain);
  const dnnl::inner_product_backward_data::primitive_desc descriptor(
      {plain2(l.samples(), op.inputs, type), any_kernel(kernel, type),
       plain2(l.samples(), kernel[1], type)},
      dnnl_attributes({}), dnnl_engine(), forward(dx, kernel, false, type, {}));
  const BufferId weights = dnnl_weights(l, 1, stored_kernel(kernel), descriptor.weights_desc());
  l.use(dy);
  l.use(dx.buffer);
  emit_dnnl<dnnl::inner_product_backward_data>(
      l, descriptor,
      {{DNNL_ARG_DIFF_DST, descriptor.diff_dst_desc(), dy},
       {DNNL_ARG_WEIGHTS, descriptor.weights_desc(), weights},
       {DNNL_ARG_DIFF_SRC, descriptor.diff_src_desc(), dx.buffer}});
}

template <>
void lower(const graph::DenseBackwardWeights& op, Lowering& l) {
  const Operand x = l.input(0, Layout::kPlain);
  const BufferId dy = as_type(l, l.input(1, Layout::kPlain), x.type);
  const Shape kernel = l.output(0, Layout::kPlain).shape;
  const dnnl::inner_product_backward_weights::primitive_desc descriptor(
      {plain2(x.n(), x.c(), x.type), any_kernel(kernel, DType::kFloat32),
       op.bias ? dense_bias_desc(kernel[1]) : memory::desc(), plain2(x.n(), kernel[1], x.type)},
      dnnl_attributes({}), dnnl_engine(), forward(x, kernel, false, x.type, {}));
  l.use(x.buffer);
  l.use(dy);
  emit_dnnl_weights_gradient<dnnl::inner_product_backward_weights>(
      l, descriptor, stored_kernel(kernel), x.buffer, dy, op.bias);
}

}  // namespace trainer::backend::cpu
