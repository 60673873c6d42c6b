// How many threads read ahead, and how far.
#pragma once

#include <cstdint>
#include <optional>

namespace trainer::data {

struct Reading {
  std::int64_t threads = 1;
  std::int64_t prefetch = 1;  // batches ready ahead
};
// What is not given is chosen by the cores of this process. With a prefetch of 0 the thread that
// asks for a batch reads it.
Reading reading_of(std::optional<std::int64_t> threads, std::optional<std::int64_t> prefetch,
                   bool in_memory);

}  // namespace trainer::data
