#include "backend/cuda/variables.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace trainer::backend::cuda {

CudaVariables::CudaVariables(const graph::Graph& graph, int device,
                             std::function<void()> synchronize, Progress progress)
    : PlacedVariables(graph),
      device_(device),
      synchronize_(std::move(synchronize)),
      progress_(std::move(progress)) {
  const DeviceGuard guard(device_);
  stream_ = create_stream();
  allocate_buffers([this](std::int64_t count) {
    return pointer_to<float>(
        buffers_.emplace_back(allocate_zeros(device_, count * sizeof(float))).span());
  });
}

void CudaVariables::copy(void* to, const void* from, std::size_t count, cudaMemcpyKind kind) const {
  if (device_ == kPlannedDevice) {
    if (kind == cudaMemcpyDeviceToHost) std::memset(to, 0, count * sizeof(float));
    return;
  }
  const ActivityScope scope(progress_, Activity::kGpu);
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

void CudaVariables::read_flat(FlatBuffer which, std::int64_t first, std::span<float> to) const {
  copy(to.data(), buffer(which) + first, to.size(), cudaMemcpyDeviceToHost);
}

void CudaVariables::write_flat(FlatBuffer which, std::int64_t first, std::span<const float> from) {
  copy(buffer(which) + first, from.data(), from.size(), cudaMemcpyHostToDevice);
  packed_weights_.note_training();
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
