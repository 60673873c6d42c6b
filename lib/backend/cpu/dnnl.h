// All use of oneDNN (API of version 2.6): descriptors of operands, and primitives as instructions.
#pragma once

#include <functional>
#include <oneapi/dnnl/dnnl.hpp>
#include <utility>
#include <vector>

#include "backend/cpu/lowering.h"

namespace trainer::backend::cpu {

dnnl::engine& dnnl_engine();
dnnl::memory::data_type dnnl_type(DType type);

// Returns the layout of an operand, in NCHW dimensions for a 4-D operand. A 2-D operand in blocked
// layout counts as [n, c, 1, 1].
dnnl::memory::desc dnnl_desc(const Operand& operand, const Lowering& l);

// An activation as an algorithm with two parameters.
struct DnnlEltwise {
  dnnl::algorithm algorithm;
  dnnl::algorithm from_output;  // whose backward takes the output, if there is one
  float alpha = 0, beta = 0;
};
DnnlEltwise dnnl_eltwise(const graph::Activation& activation);

// Returns attributes that apply the activation to the result, if there is one.
dnnl::primitive_attr dnnl_attributes(const graph::Activation& activation);

struct DnnlArgument {
  int id;
  dnnl::memory::desc desc;
  BufferId buffer;
  std::int64_t offset = 0;  // bytes from the start of the buffer
};

// Throws DeviceError if this process cannot get the memory for the code of a primitive. oneDNN does
// not check its own allocation, and writes to a null pointer.
void require_code_memory();

// Returns a function that executes a primitive, with a scratchpad that the next instruction uses.
// Different functions may be called side by side.
std::function<void(const CallContext&)> make_dnnl_call(Lowering& l,
                                                       const dnnl::primitive& primitive,
                                                       const dnnl::primitive_desc_base& descriptor,
                                                       std::vector<DnnlArgument> arguments);

void emit_dnnl(Lowering& l, const dnnl::primitive& primitive,
               const dnnl::primitive_desc_base& descriptor, std::vector<DnnlArgument> arguments);
// Adds an instruction that executes a primitive, with its scratchpad.
template <class Primitive>
void emit_dnnl(Lowering& l, const typename Primitive::primitive_desc& descriptor,
               std::vector<DnnlArgument> arguments) {
  require_code_memory();
  emit_dnnl(l, Primitive(descriptor), descriptor, std::move(arguments));
}

// Returns a persistent input in the format `wanted` of a primitive. `plain` describes the float32
// values as the variables hold them.
BufferId dnnl_weights(Lowering& l, std::size_t input, const dnnl::memory::desc& plain,
                      const dnnl::memory::desc& wanted);

// Returns whether an implementation is the slow reference.
bool dnnl_is_reference(const char* implementation);

// Adds an instruction that reorders between two formats.
void emit_dnnl_reorder(Lowering& l, const dnnl::memory::desc& from, BufferId from_buffer,
                       const dnnl::memory::desc& to, BufferId to_buffer);

// Adds the instructions of the gradients of a kernel, output 0, and with `bias` of a bias,
// output 1. `plain` describes the kernel as gradients hold it.
template <class Primitive>
void emit_dnnl_weights_gradient(Lowering& l, const typename Primitive::primitive_desc& descriptor,
                                const dnnl::memory::desc& plain, BufferId x, BufferId dy,
                                bool bias) {
  const dnnl::memory::desc wanted = descriptor.diff_weights_desc();
  const BufferId dkernel = l.output(0, Layout::kPlain).buffer;
  const bool direct = wanted == plain;
  const BufferId target =
      direct ? dkernel : l.scratch(static_cast<std::int64_t>(wanted.get_size()));
  std::vector<DnnlArgument> arguments{{DNNL_ARG_SRC, descriptor.src_desc(), x},
                                      {DNNL_ARG_DIFF_DST, descriptor.diff_dst_desc(), dy},
                                      {DNNL_ARG_DIFF_WEIGHTS, wanted, target}};
  if (bias) {
    const BufferId dbias = l.output(1, Layout::kPlain).buffer;
    arguments.push_back({DNNL_ARG_DIFF_BIAS, descriptor.diff_bias_desc(), dbias});
  }
  emit_dnnl<Primitive>(l, descriptor, arguments);
  if (direct) return;
  l.use(target);
  l.use(dkernel);
  emit_dnnl_reorder(l, wanted, target, plain, dkernel);
}

}  // namespace trainer::backend::cpu
