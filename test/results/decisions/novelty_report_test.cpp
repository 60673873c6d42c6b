#include "results/decisions/novelty_report.h"

#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "results/write_json.h"
#include "support/contains.h"

namespace trainer::results::novelty_report_test {
namespace {

using test::contains;

// Images at these distances, each of a group of its own.
std::vector<ScoredImage> make_images(const std::vector<double>& distances) {
  std::vector<ScoredImage> images;
  for (const double distance : distances) {
    const std::int64_t i = std::ssize(images);
    images.push_back({concat("image ", i), static_cast<std::int32_t>(i % 2), i, distance, 0});
  }
  return images;
}

std::vector<double> count_up(int count) {
  std::vector<double> distances;
  for (int i = 1; i <= count; ++i) distances.push_back(i);
  return distances;
}

}  // namespace

TEST_CASE("find_novelty_limit is the quantile of split conformal prediction") {
  CHECK(find_novelty_limit(count_up(19), 0.05) == 19);  // the 19th: ceil(20 * 0.95)
  CHECK(std::isinf(find_novelty_limit(count_up(18), 0.05)));
  CHECK(find_novelty_limit(count_up(99), 0.05) == 95);
  CHECK(find_novelty_limit(count_up(100), 0.05) == 96);
  CHECK(find_novelty_limit({4, 1, 3, 2, 5}, 0.5) == 3);
  CHECK(min_novelty_samples(0.05) == 19);
  CHECK(min_novelty_samples(0.01) == 99);
  CHECK(min_novelty_samples(0.3) == 3);
  CHECK(std::isfinite(find_novelty_limit(count_up(3), 0.3)));
}

TEST_CASE("cross_fit_novelty judges each tenth by the limit of the others") {
  // The largest of 40 is above the limit of the others with its tenth, and so are as many as one
  // expects of exchangeable images.
  const NovelCounts counts = cross_fit_novelty(make_images(count_up(40)), 0.1);
  CHECK(counts.samples == 40);
  std::int64_t expected = 0;
  for (int part = 0; part < 10; ++part) {
    std::vector<double> others;
    for (int i = 0; i < 40; ++i) {
      if (i % 10 != part) others.push_back(i + 1);
    }
    // 36 others: the limit is the 34th, ceil(37 * 0.9).
    for (int i = part; i < 40; i += 10) expected += i + 1 > others[33] ? 1 : 0;
  }
  CHECK(expected > 0);
  CHECK(counts.novel == expected);
}

TEST_CASE("cross_fit_novelty does not count images that too few others have a limit for") {
  // Without a limit, no image would be novel, and the rate of false alarms would be 0.
  CHECK(cross_fit_novelty(make_images(count_up(20)), 0.05).samples == 0);
  // One tenth has 3 of 21 images, which leaves 18 others; the limit needs 19.
  CHECK(cross_fit_novelty(make_images(count_up(21)), 0.05).samples == 18);
  CHECK(cross_fit_novelty(make_images(count_up(22)), 0.05).samples == 22);
}

TEST_CASE("cross_fit_novelty keeps the images of a group together") {
  // A group of 10 images is far from all others. With one of them in each tenth, the limit would
  // lie among them.
  std::vector<ScoredImage> images = make_images(count_up(100));
  for (std::size_t i = 90; i < 100; ++i) {
    images[i].distance = 1000 + static_cast<double>(i);
    images[i].group = 90;
  }
  CHECK(cross_fit_novelty(images, 0.1).novel >= 10);
  for (std::size_t i = 90; i < 100; ++i) images[i].group = static_cast<std::int64_t>(i);
  CHECK(cross_fit_novelty(images, 0.1).novel < 10);
}

TEST_CASE("measure_novelty: the limit of validation images is measured on others") {
  NoveltyReport report;
  report.allowed = 0.1;
  report.references = 5;
  report.training_images = 8;
  report.unknown.emplace().folder = "other";
  const auto validation = make_images(count_up(29));  // the limit is 27
  auto evaluated = make_images({5, 26, 27, 28, 40});
  auto unknown = make_images({27.5, 50, 60, 6});
  for (std::size_t i = 0; i < unknown.size(); ++i) unknown[i].log_odds = i < 3 ? -1 : 0;
  measure_novelty(report, {"a", "b"}, validation, evaluated, unknown);
  CHECK(report.limit == 27);
  CHECK(report.counts.samples == 5);
  CHECK(report.counts.novel == 2);
  CHECK(report.validation.samples == 29);
  CHECK(report.unknown->counts.novel == 3);
  // The unknown image is farther in 3 + 5 + 5 + 1 of the 20 pairs with a known one.
  CHECK(report.unknown->by_distance.area == doctest::Approx(0.7));
  // By probability: 3 of 4 are less certain, and the last is equal.
  CHECK(report.unknown->by_probability.area == doctest::Approx(0.875));
  REQUIRE(report.farthest.size() == 2);
  CHECK(report.farthest[0].label == "a");
  CHECK(report.farthest[0].images[0].name == "image 4");
  CHECK(report.farthest[0].images[1].name == "image 2");
  CHECK(report.farthest[1].images[0].distance == 28);
  CHECK(report.distances.front() == 5);
  CHECK(report.distances.back() == 40);
  // 2 of 5 has an interval from 12 %.
  CHECK(contains(report.contradiction, "of the test images 40.00 % (11.76 % to 76.93 %, 2 of 5)"));
  const auto json = to_json(report);
  CHECK(json.at("counts").at("rate") == 0.4);
  CHECK(json.at("unknown").at("novel") == 3);
  CHECK(json.at("unknown").at("rate") == 0.75);
  CHECK(json.at("unknown").at("auc") == report.unknown->by_distance.area);
  const std::string text = render_text(show_novelty(report, "; stored"));
  CHECK(contains(text,
                 "above a distance of 27 to 5 of 8 training images, for false alarms of "
                 "10.00 %; stored\n"));
  CHECK(contains(text, "other"));
  CHECK(contains(text, "75.00 %"));
  CHECK(contains(render_html(show_distances(report)), "image 4"));
}

TEST_CASE("measure_novelty measures the validation split itself by cross-fitting") {
  NoveltyReport report;
  report.split = Split::kValidation;
  report.allowed = 0.1;
  // The limit of all images lies among the ten farthest, which are of one group.
  auto images = make_images(count_up(100));
  for (std::size_t i = 90; i < 100; ++i) images[i].group = 90;
  for (std::size_t i = 90; i < 100; ++i) images[i].distance = 1000 + static_cast<double>(i);
  measure_novelty(report, {"a", "b"}, images, images, {});
  CHECK(report.limit >= 1000);
  CHECK(report.counts.novel == cross_fit_novelty(images, 0.1).novel);
  CHECK(report.counts.novel >= 10);
  CHECK(report.contradiction.empty());
  CHECK_FALSE(report.unknown);
}

TEST_CASE("measure_novelty: the error of too few validation images has the number needed") {
  NoveltyReport report;
  const auto images = make_images(count_up(18));
  CHECK_THROWS_WITH_AS(measure_novelty(report, {}, images, images, {}),
                       doctest::Contains("has 18 images, and --novelty-false-alarms 0.05 needs at "
                                         "least 19"),
                       DataError);
}

}  // namespace trainer::results::novelty_report_test
