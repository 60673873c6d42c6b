#include "backend/shard.h"

#include <algorithm>
#include <stdexcept>

#include "backend/cpu/gradients/update.h"
#include "backend/cpu/memory.h"
#include "base/error.h"

namespace trainer::backend {

using cpu::Memory;

struct ParameterShard::State {
  struct Chunk {
    Segment segment;
    std::size_t index = 0;             // of the segment in the model
    std::int64_t first = 0, last = 0;  // in elements of the shard
  };
  const cpu::simd::Kernels* kernels = cpu::simd::best_kernels();
  std::int64_t count = 0;
  std::vector<Chunk> chunks;
  std::vector<Memory> memory;  // parameters, slots, averages
  cpu::UpdateBuffers buffers;
};

ParameterShard::ParameterShard(const Flat& flat, std::int64_t first, std::int64_t last)
    : state_(std::make_unique<State>()) {
  State& state = *state_;
  if (state.kernels == nullptr) {
    throw DeviceError("this processor lacks AVX2 and FMA (x86-64-v3), which updates need");
  }
  state.count = last - first;
  for (std::size_t i = 0; i < flat.segments.size(); ++i) {
    const Segment& segment = flat.segments[i];
    const std::int64_t begin = std::max(first, segment.offset);
    const std::int64_t end = std::min(last, segment.offset + segment.count);
    if (begin < end) state.chunks.push_back({segment, i, begin - first, end - first});
  }
  const int buffers = 1 + flat.slots + (flat.average ? 1 : 0);
  for (int i = 0; i < buffers; ++i) {
    const std::int64_t bytes = state.count * cpu::kFloatBytes;
    state.memory.emplace_back(std::max<std::int64_t>(bytes, cpu::kAlignment));
  }
  state.buffers.parameters = state.memory[0].as<float>();
  for (int slot = 0; slot < flat.slots; ++slot) {
    state.buffers.slot[slot] = state.memory.data()[1 + slot].as<float>();
  }
  if (flat.average) state.buffers.average = state.memory.back().as<float>();
}

ParameterShard::~ParameterShard() = default;

std::span<float> ParameterShard::values(FlatBuffer buffer) {
  const std::size_t count = state_->count;
  switch (buffer.kind) {
    case FlatBuffer::Kind::kParameters:
      return {state_->buffers.parameters, count};
    case FlatBuffer::Kind::kSlot:
      return {state_->buffers.slot[buffer.slot], count};
    case FlatBuffer::Kind::kAverage:
      return {state_->buffers.average, count};
    case FlatBuffer::Kind::kStatistics:
    case FlatBuffer::Kind::kRest:
      break;
  }
  throw std::logic_error("a shard has no statistics");
}

void ParameterShard::update(const Gradient& gradient, const Scalars& scalars) {
  for (const State::Chunk& chunk : state_->chunks) {
    const float* from = gradient.values.data() + chunk.first;
    const float scale = gradient.clip_scales.empty() ? 1.0f : gradient.clip_scales[chunk.index];
    cpu::update_elements(*state_->kernels, state_->buffers, chunk.segment, chunk.first, chunk.last,
                         {scale}, {&from, 1}, scalars);
  }
}

}  // namespace trainer::backend
