// The layout of the numbers that the ranks of a group exchange for one update, which all backends
// share: the flat gradients in buckets and, after the last bucket, a trailer of numbers.
// Reasons: lib/decisions/backend.md#ordered-sums-follow-a-binary-tree.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "backend/backend.h"

namespace trainer::backend {

// Elements [first, last) of the flat buffers.
struct Slice {
  std::int64_t first = 0, last = 0;
  std::int64_t count() const { return last - first; }
};

// Groups whole parameters into buckets of about `bytes`, in the order in which backward makes the
// gradients. `count`: elements of the flat buffers.
std::vector<Slice> make_buckets(std::span<const Segment> segments, std::int64_t count,
                                std::int64_t bytes);

// Returns (instruction, bucket) of all buckets, in their order: after the instruction, the
// gradients of the bucket and of all buckets before it are written, so that all ranks reduce the
// buckets in the same order. `gradient_writers`: (instruction that writes a gradient last, offset
// of the gradient in the flat buffers).
std::vector<std::pair<int, std::size_t>> find_bucket_ends(
    std::span<const std::pair<int, std::int64_t>> gradient_writers, std::span<const Slice> buckets);

// Returns the most samples of one call of all `ranks` ranks together.
std::int64_t max_all_samples(const CompileOptions& options, std::int64_t ranks);

// The trailer shows all ranks whether the losses are finite and which ranks have moved their moving
// statistics since the last update, and holds these statistics. It is summed over the ranks like
// gradients. An update sets the moving statistics to the mean over the ranks that moved them.
class Trailer {
 public:
  // `statistics` are all moving statistics. They are sent only if they are averaged, which is not
  // the case if batch norm takes its statistics over all ranks: every rank then has the same.
  explicit Trailer(std::vector<std::span<float>> statistics = {}, bool averaged = true);

  std::size_t size() const { return 2 + (averaged_ ? count_ : 0); }  // float32 values
  // Records that a call has moved the statistics since the last update.
  void statistics_moved() { moved_ = true; }
  // Saves the statistics before the first call of an update moves them, in case the update is left
  // out.
  void remember();
  // Writes this rank's trailer.
  void write(std::span<float> to, bool finite) const;
  // Reads the sum over all ranks and returns whether to update. If so, sets the statistics to the
  // mean of the ranks where they are averaged; otherwise to those that remember() saved, also on
  // ranks whose own losses were finite.
  bool read(std::span<const float> sum);

 private:
  void assign(const float* from, float factor);

  std::vector<std::span<float>> statistics_;
  std::size_t count_ = 0;
  bool averaged_;
  std::vector<float> before_;
  bool moved_ = false;
};

}  // namespace trainer::backend
