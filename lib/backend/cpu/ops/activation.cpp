#include "backend/cpu/simd/ops/activation.inl"

#include "backend/cpu/dnnl.h"
#include "backend/cpu/ops/kernel_helpers.h"
#include "backend/cpu/ops/thread_parts.h"

namespace trainer::backend::cpu {
namespace {

using dnnl::prop_kind;
using simd::ActivationKernels;

bool has_own_kernel(ActivationKind kind) {
  using enum ActivationKind;
  return kind == kHardSigmoid || kind == kHardSwish || kind == kSelu || kind == kSwish ||
         kind == kGelu;
}

template <class T>
const typename ActivationKernels<T>::Kind& find(const ActivationKernels<T>& kernels,
                                                ActivationKind kind) {
  using enum ActivationKind;
  if (kind == kHardSigmoid) return kernels.hard_sigmoid;
  if (kind == kHardSwish) return kernels.hard_swish;
  if (kind == kSelu) return kernels.selu;
  return kind == kSwish ? kernels.swish : kernels.gelu;
}

// hard_sigmoid(0) is not 0, which the padding of channels has to be.
bool needs_plain_layout(const graph::Activation& activation) {
  return activation.kind == ActivationKind::kHardSigmoid;
}

// Adds an instruction that calls run(kernels, at, count) for parts of operands like this one:
// at(operand) is where the part of an operand begins.
template <class Run>
void emit_own(Lowering& l, ActivationKind kind, const Operand& operand, const Run& run) {
  const std::int64_t elements = l.padded_elements(operand.shape, operand.layout);
  emit_kernels<ActivationKernels>(
      l, operand.type, [=]<class T>(const CallContext& c, const ActivationKernels<T>& kernels) {
        over_parts(c, elements, [&](std::int64_t first, std::int64_t count, int) {
          const auto at = [&](const Operand& each) { return c.at<T>(each.buffer) + first; };
          run(find(kernels, kind), at, count);
        });
      });
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
  if (has_own_kernel(activation.kind)) {
    return emit_own(l, activation.kind, x,
                    [=](const auto& kernels, const auto& at, std::int64_t count) {
                      kernels.forward(at(x), at(y), count);
                    });
  }
  const dnnl::memory::desc desc = dnnl_desc(x, l);
  const DnnlEltwise eltwise = dnnl_eltwise(activation);
  const auto descriptor = forward(desc, eltwise.algorithm, eltwise);
  emit_dnnl<dnnl::eltwise_forward>(
      l, descriptor, {{DNNL_ARG_SRC, desc, x.buffer}, {DNNL_ARG_DST, desc, y.buffer}});
}

void activate_backward(Lowering& l, const graph::Activation& activation, const Operand& saved,
                       const Operand& dy, const Operand& dx) {
  if (has_own_kernel(activation.kind)) {
    return emit_own(l, activation.kind, dy,
                    [=](const auto& kernels, const auto& at, std::int64_t count) {
                      kernels.backward(at(saved), at(dy), at(dx), count);
                    });
  }
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
  const Operand x = needs_plain_layout(op.activation) ? l.input(0, Layout::kPlain) : l.input(0);
  activate(l, op.activation, x, l.output(0, x.layout));
}

template <>
void lower(const graph::ActivateBackward& op, Lowering& l) {
  const Operand dy = needs_plain_layout(op.activation) ? l.input(1, Layout::kPlain) : l.input(1);
  const Operand saved = l.input(0, dy.layout);
  activate_backward(l, op.activation, saved, dy, l.output(0, dy.layout));
}

}  // namespace trainer::backend::cpu
