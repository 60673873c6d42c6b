// The number of reading threads and of batches to read ahead.
#pragma once

#include <cstdint>
#include <optional>

namespace trainer::data {

struct Reading {
  std::int64_t threads = 1;
  std::int64_t prefetch = 1;  // batches ready ahead
};
// Chooses values that are not given by the number of cores of this process. With a prefetch of 0,
// Loader::next() reads the batch itself.
Reading reading_of(std::optional<std::int64_t> threads, std::optional<std::int64_t> prefetch,
                   bool in_memory);

}  // namespace trainer::data
