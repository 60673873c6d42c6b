// Caches the weights of the axes that a thread has resized last, bounded by their bytes.
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
  int multiple = 0;        // `taps` is rounded up to a multiple of this unless weights are grouped
  int group_channels = 0;  // the channels of groups; 0 for weights without groups
  bool operator==(const WeightsKey&) const = default;
};

// Weights by axis; the oldest are dropped first, as the images of a data set have few sizes. Not
// thread-safe.
class WeightsCache {
 public:
  // The cache has at most `max_bytes`, or one larger entry.
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
