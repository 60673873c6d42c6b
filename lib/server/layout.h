// How a model's flat buffers are divided among parameter servers.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/partition.h"

namespace trainer::server {

// Server `index` of `servers` keeps these elements: equal shares, cut at whole cache lines. A large
// kernel is so divided like all others, and a share is one piece of memory.
inline Partition shard_of(std::int64_t count, std::int64_t index, std::int64_t servers) {
  const std::int64_t width = ((count + servers - 1) / servers + 15) / 16 * 16;
  const std::int64_t first = std::min(count, index * width);
  return {first, std::min(count, first + width) - first};
}

}  // namespace trainer::server
