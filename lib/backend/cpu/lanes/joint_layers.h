// Dense layers with so many parameters for so few activations that the lanes of a training program
// compute them together: each lane takes some of the units, or of the inputs, for the samples of
// all lanes. The kernel is then read once per step and its gradient exists once. Otherwise each
// lane would read the kernel and write a gradient.
//
// The dense layers of VGG16 have 124 of its 138 million parameters and a thousandth of its
// activations. On two cores, the three layers and their update take 0.8 of the time that lanes of
// their own take, and the gradients of VGG16 at batch 64 take 0.6 GiB for any number of lanes
// instead of 0.5 GiB per lane.
//
// The lanes wait for each other in each pass of a joint layer, so that all lanes need the same
// number of micro-batches. Programs with ordered sums have no joint layers, because each of their
// micro-batches runs by itself.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "backend/backend.h"
#include "backend/cpu/memory.h"
#include "backend/cpu/variables.h"

namespace trainer::backend::cpu {

// The arrays that the lanes of a joint layer exchange: rows of all samples, in lane order. An array
// belongs to one pass, so that a lane may begin the next pass while others still read.
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
  // Chooses the joint layers of a training program whose calls run at most `samples` at once; none
  // with one lane. They are the first layers in the order of the flat buffers, which backward
  // reaches first, so that the gradients that exist once are one range.
  JointLayers(const graph::Graph& graph, const CpuVariables& variables, int lanes,
              std::int64_t samples);

  // Returns n if elements [0, n) of the flat gradient belong to joint layers.
  std::int64_t gradient_count() const { return gradient_count_; }
  // Returns the layer with this kernel; null if it is not a joint layer.
  JointLayer* find(std::string_view kernel);
  bool empty() const { return layers_.empty(); }
  // Allocates the arrays that the lanes exchange, and the gradient.
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
