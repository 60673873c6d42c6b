// How a model's flat buffers are divided among parameter servers.
#pragma once

#include <cstdint>

#include "base/numbers/partition.h"

namespace trainer::server {

// Returns the elements that server `index` of `servers` keeps. Shares are equal and cut at whole
// cache lines, so that a large kernel is divided as well and each share is contiguous.
inline Partition find_shard(std::int64_t count, std::int64_t index, std::int64_t servers) {
  return aligned_partition(count, servers, index, 16);
}

}  // namespace trainer::server
