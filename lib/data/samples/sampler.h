// The order of samples and its division into batches.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace trainer::data {

// The order of samples: for each epoch a permutation of [0, size) that depends only on (seed,
// epoch), or the identity without shuffle. Positions are < size.
class Sampler {
 public:
  Sampler(std::int64_t size, std::uint64_t seed, bool shuffle);
  // Shuffled and balanced: the numbers of samples of two classes in an epoch differ by at most one.
  // The samples of a small class repeat, their counts differing by at most one; of a large class
  // each epoch has a random subset. Drawing with replacement (PyTorch's WeightedRandomSampler)
  // would leave out a third of a rare class in each epoch. `labels`: the class of each sample, at
  // least 0.
  Sampler(std::span<const std::int32_t> labels, std::uint64_t seed);
  std::int64_t size() const { return size_; }
  std::int64_t index(std::int64_t epoch, std::int64_t position) const;
  // The samples at positions first, first + 1, ...; cheaper than one by one.
  void indices(std::int64_t epoch, std::int64_t first, std::span<std::int64_t> out) const;

 private:
  void balance(std::int64_t epoch, std::span<std::int64_t> out) const;

  std::int64_t size_;
  std::uint64_t seed_;
  bool shuffle_;
  std::vector<std::vector<std::int64_t>> classes_;  // samples of each class that has any
};

// Which samples make up batch `step`: step / batches_per_epoch is the epoch; the last batch of an
// epoch is short when the size does not divide.
struct BatchRange {
  std::int64_t epoch = 0;
  std::int64_t first = 0;  // position in the epoch
  std::int64_t count = 0;
};

std::int64_t batches_per_epoch(std::int64_t samples, std::int64_t batch_size);
BatchRange batch_range(std::int64_t samples, std::int64_t batch_size, std::int64_t step);

}  // namespace trainer::data
