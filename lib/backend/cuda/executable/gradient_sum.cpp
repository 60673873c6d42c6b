#include "backend/cuda/executable/gradient_sum.h"

#include "backend/cuda/kernels/elementwise.h"

namespace trainer::backend::cuda {

float* FlatBufferPool::take() {
  if (free_.empty()) {
    owned_.push_back(allocate_zeros(device_, static_cast<std::size_t>(count_) * sizeof(float)));
    return pointer_to<float>(owned_.back().span());
  }
  float* buffer = free_.back();
  free_.pop_back();
  return buffer;
}

void FlatBufferPool::reserve(std::size_t buffers) {
  std::vector<float*> taken;
  while (owned_.size() < buffers) taken.push_back(take());
  for (float* buffer : taken) give_back(buffer);
}

std::size_t levels_of(std::int64_t parts) {
  std::size_t levels = 1;
  for (; parts > 1; parts /= 2) ++levels;
  return levels;
}

std::int64_t FlatBufferPool::bytes() const {
  return static_cast<std::int64_t>(owned_.size() * sizeof(float)) * count_;
}

float* sum_in_tree(std::int64_t parts, std::int64_t count, FlatBufferPool& pool,
                   const std::function<void(std::int64_t part, float* to)>& make,
                   cudaStream_t stream) {
  // waiting[k] is the sum of 2^k parts whose neighbours are not there yet, or null.
  std::vector<float*> waiting;
  for (std::int64_t part = 0; part < parts; ++part) {
    float* sum = pool.take();
    make(part, sum);
    std::size_t level = 0;
    for (; level < waiting.size() && waiting[level] != nullptr; ++level) {
      accumulate(sum, waiting[level], false, count, stream);
      pool.give_back(sum);
      sum = std::exchange(waiting[level], nullptr);
    }
    if (level == waiting.size()) waiting.push_back(nullptr);
    waiting[level] = sum;
  }
  return waiting.back();
}

void sum_ranks_in_tree(CudaCollective& ranks, float* values, float* gathered, std::int64_t count,
                       cudaStream_t stream) {
  ranks.all_gather(values, gathered, count, stream);
  for (std::int64_t stride = 1; stride < ranks.size(); stride *= 2) {
    for (std::int64_t i = 0; i + stride < ranks.size(); i += 2 * stride) {
      accumulate(gathered + (i + stride) * count, gathered + i * count, false, count, stream);
    }
  }
  check(cudaMemcpyAsync(values, gathered, static_cast<std::size_t>(count) * sizeof(float),
                        cudaMemcpyDeviceToDevice, stream),
        "cudaMemcpyAsync on the device");
}

}  // namespace trainer::backend::cuda
