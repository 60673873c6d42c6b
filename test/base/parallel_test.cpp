#include "base/threads/parallel.h"

#include <doctest/doctest.h>

#include <atomic>
#include <stdexcept>
#include <vector>

namespace trainer {

TEST_CASE("parallel_for calls each index once for any count") {
  for (const std::size_t count : {0u, 1u, 3u, 1000u}) {
    std::vector<std::atomic<int>> calls(count);
    parallel_for(count, [&](std::size_t i) { ++calls[i]; });
    std::size_t once = 0;
    for (const auto& n : calls) once += n == 1 ? 1 : 0;
    CHECK(once == count);
  }
}

TEST_CASE("parallel_for rethrows an error and calls no further index") {
  constexpr std::size_t kCount = 1u << 30;  // would take far longer than a test may
  std::atomic<std::size_t> calls{0};
  CHECK_THROWS_WITH_AS(parallel_for(kCount,
                                    [&](std::size_t) {
                                      if (++calls == 5) throw std::out_of_range("the fifth");
                                    }),
                       "the fifth", std::out_of_range);
  CHECK(calls < kCount);
}

}  // namespace trainer
