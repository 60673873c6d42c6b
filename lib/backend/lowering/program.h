// A lowered graph: a flat list of instructions, and the buffers that they read and write.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "backend/lowering/program_buffers.h"
#include "graph/graph.h"

namespace trainer::backend {

template <class Context>
struct Instruction {
  using Run = std::function<void(const Context&)>;
  std::string name;            // the name of the layer
  std::string implementation;  // the text that `plan --program` prints
  graph::Phase phase = graph::Phase::kForward;
  std::int64_t workspace = 0;    // bytes of scratch memory in the arena
  double bytes = 0;              // bytes that it reads and writes
  double flops = 0;              // the FLOPs of its node
  DType type = DType::kFloat32;  // the type of the first input of its node
  Run run;
};

// An input or an output of a program.
struct Port {
  BufferId buffer = -1;               // -1: not read
  std::int64_t bytes_per_sample = 0;  // 0: not batched
  std::int64_t bytes = 0;             // bytes of one sample, or of the whole value if not batched
};

// A graph lowered for one number of samples. It allocates nothing while it runs.
template <class Policy>
struct Program {
  using Instruction = backend::Instruction<typename Policy::Context>;

  std::int64_t samples = 0;
  // The phases prepare to reduce, the outputs, and from update_begin on the update phase: moving
  // statistics.
  std::vector<Instruction> instructions;
  std::size_t backward_begin = 0;  // the first instruction of the backward phase
  std::size_t update_begin = 0;
  std::vector<BufferSource> sources;  // one per buffer
  std::int64_t arena_bytes = 0;
  std::byte* arena = nullptr;  // set by the executable
  std::vector<Port> inputs, outputs;
  // Each entry once, in the order in which the entries are made.
  std::vector<typename Policy::PackedWeights::Entry*> packed_weights;
  std::vector<typename Policy::Memory> constants;
  // Sorted pairs (instruction, offset in the flat gradient): the instruction is the last one that
  // writes the gradient at this offset.
  std::vector<std::pair<int, std::int64_t>> gradient_writers;

  std::span<const Instruction> instructions_before_update() const {
    return std::span(instructions).first(update_begin);
  }
  std::span<const Instruction> update_instructions() const {
    return std::span(instructions).subspan(update_begin);
  }
  // Returns the table of pointers for a run that reads these inputs and writes this flat gradient.
  std::vector<std::byte*> make_pointers(std::span<std::byte* const> inputs_at,
                                        float* gradients) const {
    return backend::make_pointers(sources, arena, inputs_at, gradients);
  }
};

}  // namespace trainer::backend
