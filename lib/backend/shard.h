// A part of the flat buffers with the update phase over it, in a process that has no model.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "backend/backend.h"

namespace trainer::backend {

// Elements [first, last) of all flat buffers but the statistics. Not thread-safe.
class ParameterShard {
 public:
  // Zero-filled. Throws DeviceError when this processor cannot run the kernels.
  ParameterShard(const Flat& flat, std::int64_t first, std::int64_t last);
  ~ParameterShard();
  ParameterShard(const ParameterShard&) = delete;
  ParameterShard& operator=(const ParameterShard&) = delete;

  // The part's values of a buffer.
  std::span<float> values(FlatBuffer buffer);
  // The update of a model's own executable, bit for bit. `gradient.values` is the part's, as many
  // as the shard has; clip_scales are those of all segments of the model. Of the scalars,
  // learning_rate and update count.
  void update(const Gradient& gradient, const Scalars& scalars);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace trainer::backend
