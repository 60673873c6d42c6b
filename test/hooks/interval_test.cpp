#include "hooks/interval.h"

#include <doctest/doctest.h>

#include <vector>

#include "hooks/support.h"

namespace trainer::hooks {
namespace {

using test::steps;

constexpr std::int64_t kNoEpochs = std::int64_t{1} << 40;  // steps of one, which never ends

std::vector<std::int64_t> due_steps(RowInterval interval, std::int64_t from, std::int64_t to,
                                    std::int64_t every = 1) {
  std::vector<std::int64_t> found;
  for (std::int64_t step = from; step <= to; step += every) {
    if (interval.due(step, static_cast<double>(step))) found.push_back(step);
  }
  return found;
}

TEST_CASE("row_spacing is 1, 2, 4 and so on, doubled each time the number of periods doubles") {
  CHECK(row_spacing(0, 8) == 1);
  CHECK(row_spacing(8, 8) == 1);
  CHECK(row_spacing(9, 8) == 2);
  CHECK(row_spacing(16, 8) == 2);
  CHECK(row_spacing(17, 8) == 4);
  CHECK(row_spacing(32, 8) == 4);
  CHECK(row_spacing(std::int64_t{1} << 40, 8) == std::int64_t{1} << 37);
}

TEST_CASE("RowInterval: the distances between rows grow in a long run") {
  constexpr std::int64_t kDense = 1 << 14;
  CHECK(due_steps({steps(3), kNoEpochs}, 1, 12) == std::vector<std::int64_t>{3, 6, 9, 12});
  const auto all = due_steps({steps(3), kNoEpochs}, 1, 3 * 4 * kDense);
  CHECK(all.size() == kDense + kDense / 2 + kDense / 2);
  CHECK(all[kDense] == 3 * (kDense + 2));
  CHECK(all.back() == 3 * 4 * kDense);
  SUBCASE("the same when the run is resumed") {
    const std::int64_t first = 3 * 2 * kDense + 7;
    auto rest = all;
    std::erase_if(rest, [&](std::int64_t step) { return step < first; });
    CHECK(due_steps({steps(3), kNoEpochs}, first, 3 * 4 * kDense) == rest);
  }
  SUBCASE("and where other processes make most of the steps") {
    // Three of five periods end in a step of their own.
    CHECK(due_steps({steps(3), kNoEpochs}, 5, 3 * 4 * kDense + 5, 5).size() ==
          kDense * 3 / 5 + kDense);
  }
  SUBCASE("seconds are counted from the start of the process") {
    const config::Duration second{1, config::Duration::Unit::kSeconds};
    CHECK(due_steps({second, kNoEpochs}, 1, 2 * kDense).size() == kDense + kDense / 2);
  }
}

TEST_CASE("RowInterval: the distances between rows at ends of epochs grow") {
  CHECK(due_steps({steps(3), 5}, 1, 16) == std::vector<std::int64_t>{3, 5, 6, 9, 10, 12, 15});
  constexpr std::int64_t kDense = 1 << 14;
  const auto all = due_steps({steps(1 << 30), 2}, 1, 2 * 4 * kDense);
  CHECK(all.size() == kDense + kDense / 2 + kDense / 2);
  const std::int64_t first = 2 * 2 * kDense + 7;
  auto rest = all;
  std::erase_if(rest, [&](std::int64_t step) { return step < first; });
  CHECK(due_steps({steps(1 << 30), 2}, first, 2 * 4 * kDense) == rest);
}

}  // namespace
}  // namespace trainer::hooks
