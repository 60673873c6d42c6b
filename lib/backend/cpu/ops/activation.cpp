#include "backend/cpu/simd/ops/activation.inl"

#include "backend/cpu/dnnl.h"
#include "backend/cpu/ops/kernel_helpers.h"

namespace trainer::backend::cpu {
namespace {

using ActivationKind = graph::Activation::Kind;
using dnnl::prop_kind;
using simd::ActivationKernels;

bool has_own_kernel(ActivationKind kind) {
  return kind == ActivationKind::kHardSigmoid || kind == ActivationKind::kSelu;
}

dnnl::eltwise_forward::primitive_desc forward(const dnnl::memory::desc& desc,
                                              dnnl::algorithm algorithm,
                                              const DnnlEltwise& eltwise) {
  return {{prop_kind::forward_training, algorithm, desc, eltwise.alpha, eltwise.beta},
          dnnl_attributes({}),
          dnnl_engine()};
}

}  // namespace

// Ops that cannot apply an activation themselves also use it. Unlike the activations of our own
// kernels, oneDNN's relu makes 0 of a NaN:
// lib/decisions/backend.md#the-update-checks-what-activations-hide.
void activate(Lowering& l, const graph::Activation& activation, const Operand& x,
              const Operand& y) {
  const dnnl::memory::desc desc = dnnl_desc(x, l);
  const DnnlEltwise eltwise = dnnl_eltwise(activation);
  const auto descriptor = forward(desc, eltwise.algorithm, eltwise);
  emit_dnnl<dnnl::eltwise_forward>(
      l, descriptor, {{DNNL_ARG_SRC, desc, x.buffer}, {DNNL_ARG_DST, desc, y.buffer}});
}

void activate_backward(Lowering& l, const graph::Activation& activation, const Operand& saved,
                       const Operand& dy, const Operand& dx) {
  const bool from_output = activation.differentiable_from_output();
  const DnnlEltwise eltwise = dnnl_eltwise(activation);
  const dnnl::algorithm algorithm = from_output ? eltwise.from_output : eltwise.algorithm;
  const dnnl::memory::desc desc = dnnl_desc(dy, l);
  const dnnl::eltwise_backward::primitive_desc descriptor(
      {algorithm, desc, desc, eltwise.alpha, eltwise.beta}, dnnl_attributes({}), dnnl_engine(),
      forward(desc, algorithm, eltwise));
  emit_dnnl<dnnl::eltwise_backward>(
      l, descriptor,
      {{from_output ? DNNL_ARG_DST : DNNL_ARG_SRC, desc, saved.buffer},
       {DNNL_ARG_DIFF_DST, desc, dy.buffer},
       {DNNL_ARG_DIFF_SRC, desc, dx.buffer}});
}

void activate_unfused(Lowering& l, const graph::Activation& activation, const Operand& y) {
  if (is_fusable(activation)) return;
  l.use(y.buffer);
  activate(l, activation, y, y);
}

Operand before_activation(Lowering& l, const graph::Activation& activation, const Operand& saved,
                          const Operand& dy) {
  Operand g = dy;
  g.buffer = l.scratch(l.padded_elements(dy.shape, dy.layout) *
                       static_cast<std::int64_t>(size_of(dy.type)));
  activate_backward(l, activation, saved, dy, g);
  l.use(g.buffer);
  return g;
}

template <>
void lower(const graph::Activate& op, Lowering& l) {
  if (has_own_kernel(op.activation.kind)) {
    // In plain layout, since hard_sigmoid(0) is not 0, which the channel padding has to be.
    const Operand x = l.input(0, Layout::kPlain), y = l.output(0, Layout::kPlain);
    const bool selu = op.activation.kind == ActivationKind::kSelu;
    return emit_kernels<ActivationKernels>(
        l, x.type, [=]<class T>(const CallContext& c, const ActivationKernels<T>& kernels) {
          const auto run = selu ? kernels.selu : kernels.hard_sigmoid;
          run(c.at<T>(x.buffer), c.at<T>(y.buffer), x.shape.elements());
        });
  }
  const Operand x = l.input(0);
  activate(l, op.activation, x, l.output(0, x.layout));
}

template <>
void lower(const graph::ActivateBackward& op, Lowering& l) {
  if (has_own_kernel(op.activation.kind)) {
    const Operand x = l.input(0, Layout::kPlain), dy = l.input(1, Layout::kPlain);
    const Operand dx = l.output(0, Layout::kPlain);
    const bool selu = op.activation.kind == ActivationKind::kSelu;
    return emit_kernels<ActivationKernels>(
        l, x.type, [=]<class T>(const CallContext& c, const ActivationKernels<T>& kernels) {
          const auto run = selu ? kernels.selu_backward : kernels.hard_sigmoid_backward;
          run(c.at<T>(x.buffer), c.at<T>(dy.buffer), c.at<T>(dx.buffer), x.shape.elements());
        });
  }
  const Operand dy = l.input(1);
  const Operand saved = l.input(0, dy.layout);
  activate_backward(l, op.activation, saved, dy, l.output(0, dy.layout));
}

}  // namespace trainer::backend::cpu
