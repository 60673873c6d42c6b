// Caches the weights of the axes that a thread resized last, bounded by their bytes.
#pragma once

#include <cstddef>
#include <deque>

#include "data/images/resize/resize.h"
#include "data/images/resize/rows.h"

namespace trainer::data {

struct WeightsKey {
  ResizeAxis axis;
  config::Interpolation interpolation = config::Interpolation::kBilinear;
  bool antialias = false;
  int multiple = 0;   // `taps` is rounded up to a multiple of this where there are no groups
  int groups_of = 0;  // channels, or 0 where no groups are wanted
  bool operator==(const WeightsKey&) const = default;
};

// Weights by axis, the oldest dropped first: the images of a set have few sizes. For one thread.
class WeightsCache {
 public:
  // The cache holds at most `max_bytes`, or one entry that is larger.
  explicit WeightsCache(std::size_t max_bytes) : max_bytes_(max_bytes) {}

  // Returns weights that live until the next call.
  const ResizeWeights& get(const WeightsKey& key);
  std::size_t bytes() const { return bytes_; }

 private:
  static constexpr std::size_t kMaxEntries = 128;

  struct Entry {
    WeightsKey key;
    ResizeWeights weights;
    std::size_t bytes = 0;
  };

  std::size_t max_bytes_;
  std::size_t bytes_ = 0;
  std::deque<Entry> entries_;
};

}  // namespace trainer::data
