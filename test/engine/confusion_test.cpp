#include "engine/metrics/confusion.h"

#include <doctest/doctest.h>

#include "support/confusion.h"

namespace trainer::engine {

TEST_CASE("Confusion has its cells, counts per class and scores") {
  const Confusion confusion = make_confusion({5, 0, 2, /**/ 1, 6, 0, /**/ 0, 4, 0});
  CHECK(confusion.classes() == 3);
  CHECK(confusion.at(0, 2) == 2);
  CHECK(confusion.at(2, 0) == 0);
  CHECK(confusion.cells() ==
        std::vector<ConfusionCell>{{0, 0, 5}, {0, 2, 2}, {1, 0, 1}, {1, 1, 6}, {2, 1, 4}});
  const std::vector<ClassCounts> counts = confusion.class_counts();
  REQUIRE(counts.size() == 3);
  CHECK(counts[0].support == 7);
  CHECK(counts[0].predicted == 6);
  CHECK(counts[0].correct == 5);
  CHECK(counts[2].support == 4);
  CHECK(counts[2].predicted == 2);
  CHECK(counts[2].correct == 0);
  const std::vector<ClassScores> scores = class_scores(counts);
  CHECK(scores[0].precision == doctest::Approx(5.0 / 6));
  CHECK(scores[0].recall == doctest::Approx(5.0 / 7));
  CHECK(scores[0].f1 == doctest::Approx(10.0 / 13));
  CHECK(scores[2].f1 == 0);
  std::vector<ConfusionCell> cells = confusion.cells();
  keep_largest_confusions(cells, 2);
  CHECK(cells == std::vector<ConfusionCell>{{2, 1, 4}, {0, 2, 2}});
}

TEST_CASE("Confusion takes memory for the samples only with a billion classes") {
  constexpr std::int64_t kClasses = 1'000'000'000;
  Confusion confusion(kClasses);
  for (int i = 0; i < 3; ++i) confusion.add(kClasses - 1, 7);
  confusion.add(0, kClasses - 1);
  CHECK(confusion.cells() ==
        std::vector<ConfusionCell>{{0, kClasses - 1, 1}, {kClasses - 1, 7, 3}});
  Confusion same(kClasses);
  same.add(0, kClasses - 1);
  CHECK_FALSE(same == confusion);
  same.add(kClasses - 1, 7, 3);
  CHECK(same == confusion);
}

}  // namespace trainer::engine
