#include "base/numbers/sum_tree.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

namespace trainer {
namespace {

// Numbers whose sum depends on the order of the additions.
float leaf_value(std::int64_t leaf, std::int64_t i) {
  return std::sin(static_cast<float>(leaf * 131 + i * 7 + 1)) *
         std::pow(10.0f, static_cast<float>((leaf + i) % 7));
}

// The definition in the header, as it stands there.
float tree_value(std::int64_t first, std::int64_t count, std::int64_t i) {
  if (count == 1) return leaf_value(first, i);
  return tree_value(first, count / 2, i) + tree_value(first + count / 2, count / 2, i);
}

void add_values(float* out, const float* a, const float* b, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = a[i] + b[i];
}

// One element summed by holders of these leaves, as lanes and ranks do it: a counter of roots per
// holder, then the roots of all.
float sum_by_holders(std::int64_t leaves, std::int64_t holders, std::int64_t i) {
  std::vector<float> roots;
  std::vector<TreeBlock> blocks;
  std::size_t max_roots = 0;
  for (std::int64_t holder = 0; holder < holders; ++holder) {
    const Partition own = partition(leaves, holders, holder);
    std::vector<float> waiting;
    std::size_t max_waiting = 0;
    for (std::int64_t leaf = own.first; leaf < own.first + own.count; ++leaf) {
      max_waiting = std::max(max_waiting, waiting.size());
      float sum = leaf_value(leaf, i);
      for (int k = completed_roots(own.first, leaf); k > 0; --k) {
        sum += waiting.back();
        waiting.pop_back();
      }
      waiting.push_back(sum);
      CHECK(waiting.size() == root_count(own.first, leaf + 1));
    }
    const std::vector<TreeBlock> own_blocks = tree_roots(own.first, own.first + own.count);
    CHECK(own_blocks.size() == waiting.size());
    CHECK(max_waiting_roots(own.first, own.first + own.count) >= max_waiting);
    max_roots = std::max(max_roots, own_blocks.size());
    roots.insert(roots.end(), waiting.begin(), waiting.end());
    blocks.insert(blocks.end(), own_blocks.begin(), own_blocks.end());
  }
  CHECK(max_rank_roots(leaves, holders) == max_roots);
  if (has_one_root_per_rank(leaves, holders)) CHECK(max_roots == 1);
  std::vector<const float*> sources;
  for (const float& root : roots) sources.push_back(&root);
  float total = 0;
  complete_tree(std::span<const TreeBlock>(blocks), sources.data(), 0, 1, &total, add_values);
  return total;
}

}  // namespace

TEST_CASE("tree_roots returns the largest aligned blocks in order and without a gap") {
  CHECK(tree_roots(0, 8) == std::vector<TreeBlock>{{0, 8}});
  CHECK(tree_roots(2, 5) == std::vector<TreeBlock>{{2, 2}, {4, 1}});
  CHECK(tree_roots(5, 8) == std::vector<TreeBlock>{{5, 1}, {6, 2}});
  CHECK(tree_roots(1, 16) == std::vector<TreeBlock>{{1, 1}, {2, 2}, {4, 4}, {8, 8}});
  CHECK(tree_roots(3, 3).empty());
  for (std::int64_t first = 0; first <= 32; ++first) {
    for (std::int64_t last = first; last <= 32; ++last) {
      const std::vector<TreeBlock> roots = tree_roots(first, last);
      CHECK(root_count(first, last) == roots.size());
      std::int64_t next = first;
      for (std::size_t i = 0; i < roots.size(); ++i) {
        CHECK(roots[i].first == next);
        CHECK(roots[i].first % roots[i].count == 0);
        next += roots[i].count;
        // Two neighbours that make a block would not be the largest.
        const bool pair = i > 0 && roots[i - 1].count == roots[i].count &&
                          roots[i - 1].first % (2 * roots[i].count) == 0;
        CHECK_FALSE(pair);
      }
      CHECK(next == last);
    }
  }
}

TEST_CASE("has_one_root_per_rank is true for equal shares whose size is a power of two") {
  CHECK(has_one_root_per_rank(8, 1));
  CHECK(has_one_root_per_rank(8, 4));
  CHECK(has_one_root_per_rank(8, 8));
  CHECK_FALSE(has_one_root_per_rank(8, 3));
  CHECK_FALSE(has_one_root_per_rank(4, 3));
}

TEST_CASE("sum tree: any number of holders gives the bits of the tree evaluated directly") {
  for (const std::int64_t leaves : {1, 2, 8, 32, 64}) {
    for (std::int64_t holders = 1; holders <= leaves; ++holders) {
      CAPTURE(leaves);
      CAPTURE(holders);
      for (std::int64_t i = 0; i < 20; ++i) {
        const float expected = tree_value(0, leaves, i);
        const float got = sum_by_holders(leaves, holders, i);
        CHECK(std::memcmp(&got, &expected, sizeof(float)) == 0);
      }
    }
  }
}

// Mistakes that the tests above must notice: their numbers have other bits then.
TEST_CASE("sum tree: leaves added in order, or shares added as wholes, have other bits") {
  int in_order = 0, by_shares = 0;
  for (std::int64_t i = 0; i < 20; ++i) {
    const float expected = tree_value(0, 8, i);
    float sum = leaf_value(0, i);
    for (std::int64_t leaf = 1; leaf < 8; ++leaf) sum += leaf_value(leaf, i);
    in_order += sum != expected ? 1 : 0;
    float total = 0;
    for (std::int64_t holder = 0; holder < 3; ++holder) {
      const Partition own = partition(8, 3, holder);
      float share = leaf_value(own.first, i);
      for (std::int64_t leaf = own.first + 1; leaf < own.first + own.count; ++leaf) {
        share += leaf_value(leaf, i);
      }
      total += share;
    }
    by_shares += total != expected ? 1 : 0;
  }
  CHECK(in_order > 5);
  CHECK(by_shares > 2);
}

TEST_CASE("group_by_root: blocks of several holders are grouped by the root that they make") {
  const std::vector<TreeBlock> blocks{{2, 2}, {4, 1}, {5, 1}, {6, 2}, {8, 4}, {12, 1}};
  CHECK(group_by_root(blocks) == std::vector<std::size_t>{1, 4, 5, 6});
  CHECK(group_by_root({}).empty());
  const std::vector<TreeBlock> halves{{0, 4}, {4, 4}};
  CHECK(group_by_root(halves) == std::vector<std::size_t>{2});
}

TEST_CASE("complete_tree sums part of the elements from one, two and several blocks") {
  for (const std::vector<TreeBlock>& blocks :
       {std::vector<TreeBlock>{{4, 4}}, std::vector<TreeBlock>{{4, 2}, {6, 2}},
        std::vector<TreeBlock>{{4, 1}, {5, 1}, {6, 1}, {7, 1}},
        std::vector<TreeBlock>{{4, 2}, {6, 1}, {7, 1}},
        std::vector<TreeBlock>{{4, 1}, {5, 1}, {6, 2}}}) {
    std::vector<std::vector<float>> values;
    std::vector<const float*> sources;
    for (const TreeBlock& block : blocks) {
      values.emplace_back();
      for (std::int64_t i = 0; i < 50; ++i) {
        values.back().push_back(tree_value(block.first, block.count, i));
      }
    }
    for (const std::vector<float>& source : values) sources.push_back(source.data());
    std::vector<float> out(10, -1.0f);
    complete_tree(std::span<const TreeBlock>(blocks), sources.data(), 30, 9, out.data(),
                  add_values);
    for (std::int64_t i = 0; i < 9; ++i) {
      CHECK(out[static_cast<std::size_t>(i)] == tree_value(4, 4, 30 + i));
    }
    CHECK(out[9] == -1.0f);
  }
}

TEST_CASE("rank_samples takes whole micro-batches and every sample once, and is bounded") {
  for (const std::int64_t ranks : {1, 2, 3, 4, 5, 6, 7, 8}) {
    for (const std::int64_t largest : {1, 8, 23, 48, 64}) {
      const std::int64_t most = max_rank_samples(largest, 8, ranks);
      for (std::int64_t samples = 0; samples <= largest; ++samples) {
        std::int64_t next = 0;
        for (std::int64_t rank = 0; rank < ranks; ++rank) {
          const Partition part = rank_samples(samples, 8, ranks, rank);
          const Partition leaves = partition(8, ranks, rank);
          CHECK(part.first == next);
          CHECK(part.first == partition(samples, 8, leaves.first).first);
          CHECK(part.count <= most);
          if (8 % ranks == 0) CHECK(part.count == partition(samples, ranks, rank).count);
          next += part.count;
        }
        CHECK(next == samples);
      }
      if (8 % ranks == 0) CHECK(most == (largest + ranks - 1) / ranks);
    }
  }
  CHECK(rank_samples(10, 0, 3, 1).first == partition(10, 3, 1).first);
  CHECK(rank_samples(10, 0, 3, 1).count == partition(10, 3, 1).count);
}

}  // namespace trainer
