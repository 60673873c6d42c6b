#include "commands/suspects/copies.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <numeric>
#include <utility>

#include "base/threads/parallel.h"

namespace trainer::commands {
namespace {

// The largest number of bits by which the hashes of copies differ: JPEG of quality 30 changes up to
// 9 of a photo with flat areas. The thumbnails decide.
constexpr int kMaxDistance = 10;

using CopyPair = std::pair<std::size_t, std::size_t>;

std::vector<CopyPair> find_pairs(std::span<const PictureHash> pictures) {
  std::vector<CopyPair> pairs;
  std::mutex mutex;
  parallel_for(pictures.size(), [&](std::size_t i) {
    std::vector<CopyPair> found;
    for (std::size_t j = i + 1; j < pictures.size(); ++j) {
      if (find_distance(pictures[i].bits, pictures[j].bits) > kMaxDistance) continue;
      if (show_same_picture(pictures[i].thumbnail, pictures[j].thumbnail)) found.push_back({i, j});
    }
    if (found.empty()) return;
    const std::lock_guard lock(mutex);
    pairs.insert(pairs.end(), found.begin(), found.end());
  });
  return pairs;
}

}  // namespace

std::vector<std::vector<std::size_t>> find_copies(std::span<const PictureHash> pictures) {
  // The first picture of the group of each picture, over several steps.
  std::vector<std::size_t> first(pictures.size());
  std::iota(first.begin(), first.end(), std::size_t{0});
  const auto find_first = [&](std::size_t i) {
    while (first[i] != i) i = first[i] = first[first[i]];
    return i;
  };
  for (const auto& [a, b] : find_pairs(pictures)) {
    const std::size_t x = find_first(a), y = find_first(b);
    first[std::max(x, y)] = std::min(x, y);
  }
  std::map<std::size_t, std::vector<std::size_t>> groups;
  for (std::size_t i = 0; i < pictures.size(); ++i) groups[find_first(i)].push_back(i);
  std::vector<std::vector<std::size_t>> result;
  for (auto& [picture, group] : groups) {
    if (group.size() > 1) result.push_back(std::move(group));
  }
  return result;
}

}  // namespace trainer::commands
