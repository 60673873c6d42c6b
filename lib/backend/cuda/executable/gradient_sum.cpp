#include "backend/cuda/executable/gradient_sum.h"

#include <algorithm>

#include "backend/cuda/kernels/elementwise.h"
#include "base/numbers/sum_tree.h"

namespace trainer::backend::cuda {

float* FlatBufferPool::take() {
  if (free_.empty()) {
    owned_.push_back(allocate_zeros(device_, count_ * sizeof(float)));
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

std::int64_t FlatBufferPool::bytes() const {
  return static_cast<std::int64_t>(owned_.size() * sizeof(float)) * count_;
}

std::vector<float*> sum_in_tree(std::int64_t first, std::int64_t last, std::int64_t count,
                                FlatBufferPool& pool,
                                const std::function<void(std::int64_t leaf, float* to)>& make,
                                cudaStream_t stream) {
  std::vector<float*> roots;
  for (std::int64_t leaf = first; leaf < last; ++leaf) {
    float* sum = pool.take();
    make(leaf, sum);
    for (int completed = completed_roots(first, leaf); completed > 0; --completed) {
      accumulate(sum, roots.back(), false, count, stream);
      pool.give_back(sum);
      sum = roots.back();
      roots.pop_back();
    }
    roots.push_back(sum);
  }
  return roots;
}

void sum_ranks_in_tree(CudaCollective& ranks, std::int64_t leaves, const std::vector<float*>& roots,
                       float* gathered, std::int64_t count, cudaStream_t stream) {
  // Root i of all ranks, in rank order. A rank with fewer roots sends any other values of its own.
  const std::size_t max_roots = max_rank_roots(leaves, ranks.size());
  const auto place = [&](std::size_t root, std::int64_t rank) {
    return gathered + (static_cast<std::int64_t>(root) * ranks.size() + rank) * count;
  };
  for (std::size_t i = 0; i < max_roots; ++i) {
    ranks.all_gather(roots[std::min(i, roots.size() - 1)], place(i, 0), count, stream);
  }
  // The roots from the left, each added to those before it that it completes.
  std::vector<float*> sums;
  for (std::int64_t rank = 0; rank < ranks.size(); ++rank) {
    const Partition own = partition(leaves, ranks.size(), rank);
    const std::vector<TreeBlock> blocks = tree_roots(own.first, own.first + own.count);
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      sums.push_back(place(i, rank));
      const std::size_t left = root_count(0, blocks[i].first + blocks[i].count);
      for (; sums.size() > left; sums.pop_back()) {
        accumulate(sums.back(), sums[sums.size() - 2], false, count, stream);
      }
    }
  }
  copy_on_device(roots[0], sums.front(), static_cast<std::size_t>(count) * sizeof(float), stream);
}

}  // namespace trainer::backend::cuda
