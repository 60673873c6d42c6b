#include "backend/cuda/variables.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace trainer::backend::cuda {

CudaVariables::CudaVariables(const graph::Graph& graph, int device,
                             std::function<void()> synchronize)
    : device_(device), synchronize_(std::move(synchronize)), placement_(place_variables(graph)) {
  const DeviceGuard guard(device_);
  stream_ = create_stream();
  const auto zeros = [&](std::int64_t elements) {
    return allocate_zeros(device_, elements * sizeof(float));
  };
  const Flat& flat = placement_.flat;
  parameters_ = zeros(flat.count);
  for (int slot = 0; slot < flat.slots; ++slot) slots_.push_back(zeros(flat.count));
  if (flat.average) average_ = zeros(flat.count);
  statistics_ = zeros(flat.statistics);
  rest_ = zeros(placement_.rest);
}

float* CudaVariables::at(std::string_view name) const {
  using Where = Placement::Place::Where;
  const Placement::Place& place = placement_.at(name);
  switch (place.where) {
    case Where::kParameters:
      return parameters() + place.offset;
    case Where::kSlot:
      return slot(place.slot) + place.offset;
    case Where::kAverage:
      return average() + place.offset;
    case Where::kStatistics:
      return statistics() + place.offset;
    case Where::kRest:
      return pointer_to<float>(rest_.span()) + place.offset;
  }
  throw std::logic_error("unknown place of a variable");
}

void CudaVariables::copy(void* to, const void* from, std::size_t count, cudaMemcpyKind kind) const {
  if (device_ == kPlannedDevice) {
    if (kind == cudaMemcpyDeviceToHost) std::memset(to, 0, count * sizeof(float));
    return;
  }
  synchronize_();
  if (count == 0) return;
  const DeviceGuard guard(device_);
  check(cudaMemcpyAsync(to, from, count * sizeof(float), kind, stream_.get()), "cudaMemcpyAsync");
  check(cudaStreamSynchronize(stream_.get()), "cudaStreamSynchronize");
}

void CudaVariables::read(std::string_view name, std::span<float> to) const {
  copy(to.data(), at(name), to.size(), cudaMemcpyDeviceToHost);
}

void CudaVariables::write(std::string_view name, std::span<const float> from) {
  copy(at(name), from.data(), from.size(), cudaMemcpyHostToDevice);
  packed_weights_.note_write();
}

float* CudaVariables::flat_buffer(FlatBuffer buffer) const {
  switch (buffer.kind) {
    case FlatBuffer::Kind::kParameters:
      return parameters();
    case FlatBuffer::Kind::kSlot:
      return slot(buffer.slot);
    case FlatBuffer::Kind::kAverage:
      return average();
    case FlatBuffer::Kind::kStatistics:
      return statistics();
  }
  throw std::logic_error("unknown flat buffer");
}

void CudaVariables::read_flat(FlatBuffer buffer, std::int64_t first, std::span<float> to) const {
  copy(to.data(), flat_buffer(buffer) + first, to.size(), cudaMemcpyDeviceToHost);
}

void CudaVariables::write_flat(FlatBuffer buffer, std::int64_t first, std::span<const float> from) {
  copy(flat_buffer(buffer) + first, from.data(), from.size(), cudaMemcpyHostToDevice);
  packed_weights_.note_training();
}

std::int64_t CudaVariables::bytes() const {
  std::size_t total = parameters_.bytes() + average_.bytes() + statistics_.bytes() + rest_.bytes();
  for (const Buffer& slot : slots_) total += slot.bytes();
  return static_cast<std::int64_t>(total);
}

std::int64_t CudaVariables::slot_bytes() const {
  std::size_t total = average_.bytes();
  for (const Buffer& slot : slots_) total += slot.bytes();
  return static_cast<std::int64_t>(total);
}

std::byte* CudaVariables::arena(std::int64_t bytes) {
  const std::size_t wanted = std::max<std::int64_t>(bytes, 1);
  for (const Buffer& buffer : arenas_) {
    if (buffer.bytes() >= wanted) return buffer.span().address;
  }
  arenas_.push_back(allocate_device(device_, wanted));
  return arenas_.back().span().address;
}

std::int64_t CudaVariables::arena_bytes() const {
  std::size_t total = 0;
  for (const Buffer& buffer : arenas_) total += buffer.bytes();
  return static_cast<std::int64_t>(total);
}

}  // namespace trainer::backend::cuda
