// What the ranks of a group exchange for one update: the flat gradients in buckets, and behind the
// last bucket a trailer of numbers that travel with it. Every backend lays them out so.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/backend.h"

namespace trainer::backend {

// Elements [first, last) of the flat buffers.
struct Slice {
  std::int64_t first = 0, last = 0;
  std::int64_t count() const { return last - first; }
};

// Whole parameters of about `bytes` together, in the order in which backward makes the gradients.
// `count`: elements of the flat buffers.
std::vector<Slice> make_buckets(std::span<const Segment> segments, std::int64_t count,
                                std::int64_t bytes);

// The trailer: whether this rank's loss is finite, whether its moving statistics have moved since
// the last update, and those, which an update replaces by the mean over the ranks that moved them.
// Summed over the ranks like gradients.
class Trailer {
 public:
  // `statistics`: moving statistics that are averaged; none when batch norm takes its statistics
  // over all ranks.
  explicit Trailer(std::vector<std::span<float>> statistics = {});

  std::size_t size() const { return 2 + count_; }  // float32 values
  // Moving statistics have followed a call since the last update.
  void statistics_moved() { moved_ = true; }
  // Before a call moves the statistics: keeps them for an update that is off.
  void remember();
  // This rank's trailer.
  void write(std::span<float> to, bool finite) const;
  // Takes the sum over all ranks: whether the update is on. The statistics are then the mean of the
  // ranks', otherwise what they were when remember() was called.
  bool read(std::span<const float> sum);

 private:
  void assign(const float* from, float factor);

  std::vector<std::span<float>> statistics_;
  std::size_t count_ = 0;
  std::vector<float> before_;
  bool moved_ = false;
};

}  // namespace trainer::backend
