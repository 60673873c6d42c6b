// Dense layers with so many parameters for so few activations that the workers of a training
// program compute them together: each takes some of the units, or of the inputs, for the samples of
// all workers. The kernel is then read once a step and its gradient exists once, where workers on
// their own would read and write them once each.
//
// A joint layer meets the other workers in each pass, so that all workers need the same number of
// micro-batches.
// Reasons: lib/decisions/backend.md#lanes-share-the-largest-dense-layers.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "backend/backend.h"
#include "backend/cpu/memory.h"
#include "backend/cpu/variables.h"

namespace trainer::backend::cpu {

// What the workers of a joint layer exchange: rows of all of their samples, in worker order. An
// array belongs to one pass, so that a worker may begin the next while others still read.
struct JointLayer {
  std::int64_t inputs = 0, units = 0;
  Memory x;  // [samples, inputs]: written in forward, read until the last pass
  Memory y;  // [samples, units]
  Memory dy_of_data, dy_of_weights;  // [samples, units], of the gradients of x and of the kernel
  Memory dx;                         // [samples, inputs]
};

class JointLayers {
 public:
  JointLayers() = default;
  // Of a training program with so many workers, whose calls run at most `samples` at once. Its
  // layers are the first ones in the order of the flat buffers, those that backward reaches first:
  // the gradients that exist once are then one range. None with one worker.
  JointLayers(const graph::Graph& graph, const CpuVariables& variables, int workers,
              std::int64_t samples);

  // Elements [0, n) of the flat gradient are of joint layers.
  std::int64_t gradient_count() const { return gradient_count_; }
  // The layer with this kernel; null when it is not a joint layer.
  JointLayer* find(std::string_view kernel);
  bool empty() const { return layers_.empty(); }
  // Allocates what the workers exchange, and the gradient.
  void allocate();
  float* gradient() const { return gradient_.as<float>(); }
  std::int64_t gradient_bytes() const { return gradient_.bytes(); }
  std::int64_t exchanged_bytes() const;

 private:
  std::int64_t samples_ = 0, gradient_count_ = 0;
  std::map<std::string, JointLayer, std::less<>> layers_;
  Memory gradient_;
};

}  // namespace trainer::backend::cpu
