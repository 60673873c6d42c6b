// The only door to oneDNN (version 2.6's API): descriptors of operands and primitives as steps.
#pragma once

#include <oneapi/dnnl/dnnl.hpp>
#include <string>
#include <utility>
#include <vector>

#include "backend/cpu/lowering.h"

namespace trainer::backend::cpu {

dnnl::engine& dnnl_engine();
dnnl::memory::data_type dnnl_type(DType type);

// NCHW dimensions of a 4-D operand, as they are for others.
dnnl::memory::dims dnnl_dims(const Operand& operand);
// Where an operand lies. A 2-D operand in blocked layout counts as [n, c, 1, 1].
dnnl::memory::desc dnnl_desc(const Operand& operand, const Lowering& l);

// The algorithm of an activation for forward, or for backward from the output where it has one.
dnnl::algorithm dnnl_eltwise(const graph::Activation& activation, bool from_output);
float dnnl_alpha(const graph::Activation& activation);
float dnnl_beta(const graph::Activation& activation);

// Appends the activation, if any.
dnnl::primitive_attr dnnl_attributes(const graph::Activation& activation);

struct DnnlArgument {
  int id;
  dnnl::memory::desc desc;
  BufferId buffer;
};

// A step that executes a primitive; asks for its scratchpad.
void dnnl_step(Lowering& l, const dnnl::primitive& primitive,
               const dnnl::primitive_desc_base& descriptor, std::vector<DnnlArgument> arguments);

// A persistent input in the format a primitive wants. `plain` describes the float32 values as the
// variables hold them.
BufferId dnnl_weights(Lowering& l, std::size_t input, const dnnl::memory::desc& plain,
                      const dnnl::memory::desc& wanted);

// Whether an implementation is the slow reference.
bool dnnl_is_reference(const char* implementation);

// Reorders between two formats, as a step.
void dnnl_reorder_step(Lowering& l, const dnnl::memory::desc& from, BufferId from_buffer,
                       const dnnl::memory::desc& to, BufferId to_buffer);

}  // namespace trainer::backend::cpu
