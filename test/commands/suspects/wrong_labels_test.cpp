// Likely wrong labels, compared with cleanlab.
#include "commands/suspects/wrong_labels.h"

#include <doctest/doctest.h>

namespace trainer::commands {
namespace {

struct Golden {
  std::vector<std::int32_t> labels;
  std::vector<double> probabilities;
  std::vector<std::size_t> suspects;
  std::vector<std::int32_t> suggested;
};

// Drawn with numpy 2; a third of the labels is wrong. `suspects` is what cleanlab 2.9.0 returns for
//   cleanlab.filter.find_label_issues(labels, probabilities, filter_by="confident_learning",
//                                     return_indices_ranked_by="normalized_margin")
// and `suggested` the column of cleanlab.count.compute_confident_joint() that counts each. Sample 3
// and others are likelier of another class but reach no threshold; one reaches that of its label
// alone; sample 18 confidently is of a class that is not its likeliest.
Golden make_golden() {
  const std::vector<int> thousandths{
      761, 24,  215, 447, 6,   547, 273, 480, 247, 817, 51,  132, 11,  79,  910, 237, 427, 336,
      305, 216, 479, 321, 301, 378, 636, 97,  267, 227, 101, 672, 493, 299, 208, 50,  121, 829,
      17,  31,  952, 845, 75,  80,  748, 218, 34,  847, 41,  112, 282, 468, 250, 24,  113, 863,
      515, 319, 166, 502, 293, 205, 838, 114, 48,  12,  500, 488, 224, 338, 438, 91,  6,   903};
  Golden golden;
  golden.labels = {2, 2, 2, 0, 2, 0, 0, 1, 1, 2, 0, 2, 2, 0, 2, 0, 2, 0, 2, 1, 0, 1, 1, 2};
  for (const int p : thousandths) golden.probabilities.push_back(p / 1000.0);
  golden.suspects = {17, 14, 0, 8, 18, 2, 16, 5};
  golden.suggested = {2, 0, 0, 0, 1, 1, 1, 1};
  return golden;
}

}  // namespace

TEST_CASE("find_wrong_labels finds the samples of cleanlab in the order of cleanlab") {
  const Golden golden = make_golden();
  const std::vector<WrongLabel> found = find_wrong_labels(golden.labels, golden.probabilities, 3);
  std::vector<std::size_t> suspects;
  std::vector<std::int32_t> suggested;
  for (const WrongLabel& wrong : found) {
    suspects.push_back(wrong.sample);
    suggested.push_back(wrong.suggested);
  }
  CHECK(suspects == golden.suspects);
  CHECK(suggested == golden.suggested);
  REQUIRE(!found.empty());
  CHECK(found[0].margin == doctest::Approx(0.863 - 0.024));
  CHECK(found[4].margin == doctest::Approx(0.515 - 0.166));
}

TEST_CASE("find_wrong_labels: a class without samples is never suggested") {
  // The mean of class 0 is 0.6, of class 1 0.4.
  const std::vector<std::int32_t> labels{0, 0, 1, 1};
  const std::vector<double> probabilities{0.9,  0.1,  0,   0.3, 0.1,  0.6,
                                          0.05, 0.75, 0.2, 0.1, 0.05, 0.85};
  CHECK(find_wrong_labels(labels, probabilities, 3).empty());
}

TEST_CASE("find_wrong_labels: the most probable label is not suspect") {
  // The thresholds are 0.75 and 0.4, and the last sample only reaches that of class 1.
  const std::vector<std::int32_t> labels{0, 1, 0};
  const std::vector<double> probabilities{0.95, 0.05, 0.6, 0.4, 0.55, 0.45};
  CHECK(find_wrong_labels(labels, probabilities, 2).empty());
}

TEST_CASE("find_wrong_labels suggests the most probable of several confident classes") {
  const std::vector<std::int32_t> labels{0, 1, 2, 2};
  const std::vector<double> probabilities{0.3, 0.4, 0.3, 0.5, 0.3, 0.2, 0, 0, 1, 0.4, 0.5, 0.1};
  const std::vector<WrongLabel> found = find_wrong_labels(labels, probabilities, 3);
  REQUIRE(found.size() == 3);
  CHECK(found[0].sample == 3);
  CHECK(found[0].suggested == 1);
}

TEST_CASE("find_wrong_labels finds a probability equal to the threshold within rounding") {
  // The mean of 0.1 and 0.2 is larger than 0.15.
  const std::vector<std::int32_t> labels{0, 0, 1, 1};
  const std::vector<double> probabilities{0.9, 0.05, 0.05, 0.1, 0.15, 0.75,
                                          0.4, 0.1,  0.5,  0.4, 0.2,  0.4};
  const std::vector<WrongLabel> found = find_wrong_labels(labels, probabilities, 3);
  REQUIRE(found.size() == 1);
  CHECK(found[0].sample == 1);
  CHECK(found[0].suggested == 1);
}

}  // namespace trainer::commands
