// The order of samples and its division into batches.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/dataset.h"

namespace trainer::data {

// The order of samples: for each epoch a permutation of [0, size) that depends only on (seed,
// epoch), or the identity without shuffle. Positions are in [0, size).
class Sampler {
 public:
  Sampler(std::int64_t size, std::uint64_t seed, bool shuffle);
  // Shuffled and balanced: the numbers of samples that two classes give to an epoch differ by at
  // most one. The samples of a small class repeat, with counts that differ by at most one; an epoch
  // has a random subset of a large class. Drawing with replacement (WeightedRandomSampler of
  // PyTorch) would leave out a third of a rare class in each epoch. `classes` has the samples of
  // each class, at least one; a sample with several labels may be in several.
  Sampler(std::vector<std::vector<std::int64_t>> classes, std::int64_t size, std::uint64_t seed);
  std::int64_t size() const { return size_; }
  std::int64_t index(std::int64_t epoch, std::int64_t position) const;
  // Gives the samples at positions first, first + 1, ...; cheaper than one by one.
  void indices(std::int64_t epoch, std::int64_t first, std::span<std::int64_t> out) const;

 private:
  void balance(std::int64_t epoch, std::span<std::int64_t> out) const;

  std::int64_t size_;
  std::uint64_t seed_;
  bool shuffle_;
  std::vector<std::vector<std::int64_t>> classes_;
};

// Returns a balanced sampler of a data set: over its classes, or over its labels and the images
// without any. Throws DataError for a sample without a known class.
Sampler balanced_sampler(const Dataset& dataset, std::uint64_t seed);

// What happens to the samples at the end of an epoch that do not fill a batch.
enum class Remainder { kKeep, kDrop };
// Returns the number of positions that an epoch uses, the first ones: all `samples`, or as many as
// fill batches.
std::int64_t samples_per_epoch(std::int64_t samples, std::int64_t batch_size, Remainder remainder);

// The positions of a batch in an epoch.
struct BatchRange {
  std::int64_t epoch = 0;
  std::int64_t first = 0;  // the position of the first sample
  std::int64_t count = 0;
};

// Returns the number of batches of an epoch of `samples` positions; the last one may be short.
std::int64_t batches_per_epoch(std::int64_t samples, std::int64_t batch_size);
// Returns the positions of batch `step`, whose epoch is step / batches_per_epoch().
BatchRange batch_range(std::int64_t samples, std::int64_t batch_size, std::int64_t step);

}  // namespace trainer::data
