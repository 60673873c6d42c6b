// The fixed tree in which ordered sums add the gradients of the micro-batches of a global batch.
//
// The tree has n leaves x_0 ... x_{n-1}, n a power of two. A block is 2m leaves from a multiple of
// 2m on, and its sum is
//
//   S(i, 1) = x_i,    S(i, 2m) = S(i, m) + S(i + m, m),
//
// so that every addition, and thus every bit of S(0, n), depends on n alone. Lanes, replicas and
// processes each hold any number of consecutive leaves. A holder adds its leaves up to the roots of
// the largest blocks that it holds completely. The sum of the tree is then computed from the roots
// of all holders. partition() defines the leaves of a holder and the samples of a leaf.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/numbers/partition.h"

namespace trainer {

// Leaves [first, first + count): count is a power of two, and first a multiple of it.
struct TreeBlock {
  std::int64_t first = 0, count = 0;
  bool operator==(const TreeBlock&) const = default;
};

// Returns the largest block that starts at leaf `first` and ends by `last`; first < last.
TreeBlock largest_block(std::int64_t first, std::int64_t last);

// Returns the largest blocks within leaves [first, last), in order.
std::vector<TreeBlock> tree_roots(std::int64_t first, std::int64_t last);
// Returns the number of these blocks.
std::size_t root_count(std::int64_t first, std::int64_t last);

// Returns the largest number of roots that a holder of leaves [first, last) keeps while it computes
// a leaf.
std::size_t max_waiting_roots(std::int64_t first, std::int64_t last);

// Returns the largest number of roots of a rank. Rank r of `ranks` holds the leaves
// partition(leaves, ranks, r).
std::size_t max_rank_roots(std::int64_t leaves, std::int64_t ranks);

// Returns the number of additions that leaf `leaf` makes possible for a holder whose leaves start
// at `first`: the leaf is added to the latest root, the result to the root before that one, and so
// on.
int completed_roots(std::int64_t first, std::int64_t leaf);

// Groups `blocks`, which follow each other without a gap, by the roots of the leaves that they
// cover. Element i of the result is the end of the blocks below root i.
std::vector<std::size_t> group_by_root(std::span<const TreeBlock> blocks);

// Returns true if all ranks hold equally many leaves, which have one root on each rank.
bool has_one_root_per_rank(std::int64_t leaves, std::int64_t ranks);

// Returns the samples of a rank's leaves. They are partition(samples, ranks, rank) if
// has_one_root_per_rank() holds or the sums are not ordered (leaves = 0).
Partition rank_samples(std::int64_t samples, std::int64_t leaves, std::int64_t ranks,
                       std::int64_t rank);

// Returns the largest number of samples of a rank in batches of up to `samples` samples.
std::int64_t max_rank_samples(std::int64_t samples, std::int64_t leaves, std::int64_t ranks);

// The number of elements that complete_tree() sums at once, so that the pieces of the sources stay
// in the L1 cache.
inline constexpr std::int64_t kTreeChunk = 1024;

// Sets out[0, n) to the sum of the root that `blocks` make. Source i holds the sum of block i,
// whose elements [at, at + n) are read; n <= kTreeChunk. `out` must not overlap a source.
// `add(out, a, b, n)` computes out[i] = a[i] + b[i]; its `out` may be its `a`.
template <class T, class Add>
void complete_tree(std::span<const TreeBlock> blocks, const T* const* sources, std::int64_t at,
                   std::int64_t n, T* out, const Add& add) {
  if (blocks.size() == 1) {
    std::copy(sources[0] + at, sources[0] + at + n, out);
    return;
  }
  if (blocks.size() == 2) return add(out, sources[0] + at, sources[1] + at, n);
  const std::int64_t middle =
      (blocks.front().first + blocks.back().first + blocks.back().count) / 2;
  std::size_t left = 1;
  while (blocks[left].first < middle) ++left;
  T right[kTreeChunk];
  complete_tree(blocks.first(left), sources, at, n, out, add);
  complete_tree(blocks.subspan(left), sources + left, at, n, right, add);
  add(out, out, right, n);
}

}  // namespace trainer
