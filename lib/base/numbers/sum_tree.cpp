#include "base/numbers/sum_tree.h"

#include <bit>

namespace trainer {

TreeBlock largest_block(std::int64_t first, std::int64_t last) {
  const auto fits =
      static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(last - first)));
  const std::int64_t alignment = first & -first;
  return {first, alignment == 0 ? fits : std::min(fits, alignment)};
}

std::vector<TreeBlock> tree_roots(std::int64_t first, std::int64_t last) {
  std::vector<TreeBlock> roots;
  for (std::int64_t at = first; at < last; at += roots.back().count) {
    roots.push_back(largest_block(at, last));
  }
  return roots;
}

std::size_t root_count(std::int64_t first, std::int64_t last) {
  std::size_t count = 0;
  for (; first < last; ++count) first += largest_block(first, last).count;
  return count;
}

std::size_t max_waiting_roots(std::int64_t first, std::int64_t last) {
  std::size_t max_roots = 0;
  for (std::int64_t leaf = first; leaf < last; ++leaf) {
    max_roots = std::max(max_roots, root_count(first, leaf));
  }
  return max_roots;
}

std::size_t max_rank_roots(std::int64_t leaves, std::int64_t ranks) {
  std::size_t max_roots = 0;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    const Partition share = partition(leaves, ranks, rank);
    max_roots = std::max(max_roots, root_count(share.first, share.first + share.count));
  }
  return max_roots;
}

int completed_roots(std::int64_t first, std::int64_t leaf) {
  int roots = std::countr_one(static_cast<std::uint64_t>(leaf));
  while (leaf + 1 - (std::int64_t{1} << roots) < first) --roots;
  return roots;
}

std::vector<std::size_t> group_by_root(std::span<const TreeBlock> blocks) {
  std::vector<std::size_t> ends;
  if (blocks.empty()) return ends;
  std::size_t end = 0;
  for (const TreeBlock& root :
       tree_roots(blocks.front().first, blocks.back().first + blocks.back().count)) {
    while (end < blocks.size() && blocks[end].first < root.first + root.count) ++end;
    ends.push_back(end);
  }
  return ends;
}

bool has_one_root_per_rank(std::int64_t leaves, std::int64_t ranks) {
  return leaves % ranks == 0 && std::has_single_bit(static_cast<std::uint64_t>(leaves / ranks));
}

Partition rank_samples(std::int64_t samples, std::int64_t leaves, std::int64_t ranks,
                       std::int64_t rank) {
  if (leaves == 0) return partition(samples, ranks, rank);
  const Partition share = partition(leaves, ranks, rank);
  const std::int64_t first = samples * share.first / leaves;
  return {first, samples * (share.first + share.count) / leaves - first};
}

std::int64_t max_rank_samples(std::int64_t samples, std::int64_t leaves, std::int64_t ranks) {
  if (leaves == 0) return (samples + ranks - 1) / ranks;
  const std::int64_t rank_leaves = (leaves + ranks - 1) / ranks;
  return (samples * rank_leaves + leaves - 1) / leaves;
}

}  // namespace trainer
