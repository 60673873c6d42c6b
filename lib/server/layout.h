// How a model's flat buffers are divided among parameter servers.
#pragma once

#include <cstdint>

#include "base/partition.h"

namespace trainer::server {

// Server `index` of `servers` keeps these elements: equal shares, cut at whole cache lines. A large
// kernel is so divided like all others, and a share is one piece of memory.
inline Partition shard_of(std::int64_t count, std::int64_t index, std::int64_t servers) {
  return aligned_partition(count, servers, index, 16);
}

}  // namespace trainer::server
