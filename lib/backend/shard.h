// A shard of the flat buffers and its update phase, in a process that has no model.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "backend/backend.h"

namespace trainer::backend {

// Elements [first, last) of all flat buffers but the statistics. Not thread-safe.
class ParameterShard {
 public:
  // Fills the shard with zeros. Throws DeviceError if this processor cannot run the kernels.
  ParameterShard(const Flat& flat, std::int64_t first, std::int64_t last);
  ~ParameterShard();
  ParameterShard(const ParameterShard&) = delete;
  ParameterShard& operator=(const ParameterShard&) = delete;

  // Returns the values of this shard in a buffer.
  std::span<float> values(FlatBuffer buffer);
  // Updates the shard with the same bits as the executable of a whole model. `gradient.values` has
  // as many elements as the shard, `gradient.clip_scales` one for each segment of the model. Of the
  // scalars only learning_rate and update are read.
  void update(const Gradient& gradient, const Scalars& scalars);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace trainer::backend
