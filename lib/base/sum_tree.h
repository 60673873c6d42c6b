// The fixed tree in which ordered sums add the gradients of the micro-batches of a global batch.
//
// The tree has n leaves x_0 ... x_{n-1}, n a power of two. A block is 2m leaves from a multiple of
// 2m on, and its sum is
//
//   S(i, 1) = x_i,    S(i, 2m) = S(i, m) + S(i + m, m),
//
// so that every addition, and thus every bit of S(0, n), depends on n alone. Lanes, replicas and
// processes each hold consecutive leaves, any number of them. A holder adds its leaves up to the
// roots of the largest blocks that it holds completely, and who has the roots of all holders
// completes the tree. The leaves of a holder, and the samples of a leaf, are those of partition().
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/partition.h"

namespace trainer {

// Leaves [first, first + count): count is a power of two, and first a multiple of it.
struct TreeBlock {
  std::int64_t first = 0, count = 0;
  bool operator==(const TreeBlock&) const = default;
};

// The largest block that starts at leaf `first` and ends by `last`; first < last.
TreeBlock largest_block(std::int64_t first, std::int64_t last);

// The largest blocks within leaves [first, last), in order, and how many they are.
std::vector<TreeBlock> tree_roots(std::int64_t first, std::int64_t last);
std::size_t root_count(std::int64_t first, std::int64_t last);

// The most roots that a holder of leaves [first, last) keeps while it computes a leaf.
std::size_t max_waiting_roots(std::int64_t first, std::int64_t last);

// The most roots of a rank, of which rank r of `ranks` holds partition(leaves, ranks, r).
std::size_t max_rank_roots(std::int64_t leaves, std::int64_t ranks);

// How many of the latest roots of a holder, whose leaves start at `first`, leaf `leaf` completes:
// it is added to the latest root, the result to the root before it, and so on.
int completed_roots(std::int64_t first, std::int64_t leaf);

// `blocks`, in order and without a gap, as the roots of what they cover: element i of the result is
// the end of the blocks below root i.
std::vector<std::size_t> group_by_root(std::span<const TreeBlock> blocks);

// Returns true if every rank, of which rank r holds partition(leaves, ranks, r), has one root.
bool has_one_root_per_rank(std::int64_t leaves, std::int64_t ranks);

// The samples of a rank: those of its leaves. With has_one_root_per_rank() or without leaves
// (leaves = 0: the sums are not ordered) these are partition(samples, ranks, rank).
Partition rank_samples(std::int64_t samples, std::int64_t leaves, std::int64_t ranks,
                       std::int64_t rank);

// The most samples of any rank, of a batch with up to so many samples.
std::int64_t max_rank_samples(std::int64_t samples, std::int64_t leaves, std::int64_t ranks);

// Elements that complete_tree() sums at once, so that the sources' pieces stay in the first-level
// cache.
inline constexpr std::int64_t kTreeChunk = 1024;

// out[0, n) = the root of `blocks`, which are the blocks of one root; source i holds the sum of
// block i, of which elements [at, at + n) are read. n <= kTreeChunk. out may overlap no source.
// add(out, a, b, n) computes out[i] = a[i] + b[i], where out may be a.
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
