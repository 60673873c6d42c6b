// The training images that distances are measured to.
#include "inference/decisions/novelty.h"

#include <doctest/doctest.h>

#include <map>

namespace trainer::inference {

TEST_CASE("choose_references keeps small classes whole and draws evenly from large ones") {
  std::vector<std::int32_t> labels;
  for (const auto& [label, count] : {std::pair{0, 100}, {1, 3}, {2, 50}}) {
    labels.insert(labels.end(), static_cast<std::size_t>(count), label);
  }
  const std::vector<std::int64_t> chosen = choose_references(labels, 43);
  CHECK(chosen.size() == 43);
  std::map<std::int32_t, std::int64_t> counts;
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    CHECK((i == 0 || chosen[i - 1] < chosen[i]));
    ++counts[labels[static_cast<std::size_t>(chosen[i])]];
  }
  CHECK(counts == std::map<std::int32_t, std::int64_t>{{0, 20}, {1, 3}, {2, 20}});
  CHECK(chosen[1] == 5);  // every fifth of class 0
  CHECK(chosen[19] == 95);
  CHECK(choose_references(labels, 1000).size() == 153);
  CHECK(choose_references({-1, -1, -1, -1}, 2) == std::vector<std::int64_t>{0, 2});
  // Fewer than classes: some have none.
  CHECK(choose_references({0, 1, 2}, 2).size() == 2);
}

}  // namespace trainer::inference
