#include "data/samples/groups.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <span>

#include "base/error.h"
#include "base/numbers/random.h"
#include "data/samples/training_division.h"

namespace trainer::data::groups_test {
namespace {

struct Samples {
  std::vector<std::int32_t> labels;
  std::vector<std::string> groups;
  void add(std::int32_t label, const std::string& group, int count = 1) {
    for (int i = 0; i < count; ++i) {
      labels.push_back(label);
      groups.push_back(group);
    }
  }
};

// Groups of 1 to `max_size` samples, each of one class, and some samples without a group.
Samples draw_samples(Random& random, std::int64_t max_size) {
  Samples samples;
  const auto classes = static_cast<int>(2 + random.below(4));
  for (int label = 0; label < classes; ++label) {
    const auto groups = static_cast<int>(4 + random.below(30));
    for (int group = 0; group < groups; ++group) {
      samples.add(label, concat(label, '-', group),
                  static_cast<int>(1 + random.below(static_cast<std::uint64_t>(max_size))));
    }
    samples.add(label, "", static_cast<int>(random.below(10)));
  }
  // The order of the samples does not follow the groups.
  for (std::size_t i = samples.labels.size(); i > 1; --i) {
    const std::size_t other = random.below(i);
    std::swap(samples.labels[i - 1], samples.labels[other]);
    std::swap(samples.groups[i - 1], samples.groups[other]);
  }
  return samples;
}

std::vector<std::int32_t> divide(const Samples& samples, const std::vector<double>& shares,
                                 std::uint64_t seed) {
  return divide_groups(Strata(samples.labels), number_groups(samples.groups, samples.groups.size()),
                       shares, seed);
}

// Returns whether each group is in one part only.
bool keeps_groups(const Samples& samples, const std::vector<std::int32_t>& parts) {
  std::map<std::string, std::int32_t> part_of;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (samples.groups[i].empty()) continue;
    if (part_of.try_emplace(samples.groups[i], parts[i]).first->second != parts[i]) return false;
  }
  return true;
}

// Returns the largest difference of a class in a part from its share, divided by the size of the
// largest group of the class.
double find_worst_difference(const Samples& samples, const std::vector<std::int32_t>& parts,
                             const std::vector<double>& shares) {
  std::map<std::int32_t, double> sizes;
  std::map<std::pair<std::int32_t, std::int32_t>, double> counts;  // by class and part
  std::map<std::pair<std::int32_t, std::string>, double> groups;
  std::map<std::int32_t, double> largest;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    ++sizes[samples.labels[i]];
    ++counts[{samples.labels[i], parts[i]}];
    double& size = groups[{samples.labels[i], samples.groups[i]}];
    size = samples.groups[i].empty() ? 1 : size + 1;
    largest[samples.labels[i]] = std::max(largest[samples.labels[i]], size);
  }
  double worst = 0;
  for (const auto& [label, size] : sizes) {
    for (std::size_t part = 0; part < shares.size(); ++part) {
      const double count = counts[{label, static_cast<std::int32_t>(part)}];
      worst = std::max(worst, std::abs(count - size * shares[part]) / largest[label]);
    }
  }
  return worst;
}

}  // namespace

TEST_CASE(
    "divide_groups puts no group in two parts, and classes within one group of their shares") {
  Random random(1, Stream::kSynthetic);
  double worst = 0;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    CAPTURE(seed);
    const Samples samples = draw_samples(random, 1 + static_cast<std::int64_t>(seed % 9));
    const double share = 0.05 + 0.9 * static_cast<double>(random.uniform());
    const auto folds = static_cast<std::size_t>(2 + seed % 7);
    for (const std::vector<double>& shares :
         {std::vector<double>{1 - share, share},
          std::vector<double>(folds, 1 / static_cast<double>(folds))}) {
      const std::vector<std::int32_t> parts = divide(samples, shares, seed);
      REQUIRE(parts.size() == samples.labels.size());
      CHECK(keeps_groups(samples, parts));
      CHECK(std::set<std::int32_t>(parts.begin(), parts.end()).size() == shares.size());
      worst = std::max(worst, find_worst_difference(samples, parts, shares));
    }
  }
  CHECK(worst < 1);
}

TEST_CASE("divide_groups: samples without groups have exactly their shares") {
  Samples samples;
  samples.add(0, "", 103);
  samples.add(1, "", 52);
  samples.add(2, "", 7);
  const std::vector<std::int32_t> parts = divide(samples, std::vector<double>(5, 0.2), 3);
  std::map<std::pair<std::int32_t, std::int32_t>, int> counts;  // by class and part
  std::map<std::int32_t, int> sizes;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    ++counts[{samples.labels[i], parts[i]}];
    ++sizes[parts[i]];
  }
  for (std::int32_t part = 0; part < 5; ++part) {
    CHECK(std::abs(counts[{0, part}] - 20.6) < 1);
    CHECK(std::abs(counts[{1, part}] - 10.4) < 1);
    CHECK(std::abs(counts[{2, part}] - 1.4) < 1);
    // The additional samples of the classes go to different parts: 162 is 33, 33, 32, 32 and 32.
    CHECK(std::abs(sizes[part] - 32.4) < 1);
  }
}

TEST_CASE("divide_groups keeps the share of all samples for many small classes") {
  Samples samples;
  for (std::int32_t label = 0; label < 100; ++label) samples.add(label, "", 2);
  const std::vector<std::int32_t> parts = divide(samples, {0.8, 0.2}, 1);
  CHECK(std::count(parts.begin(), parts.end(), 1) == 40);
}

TEST_CASE(
    "divide_groups: no single move of a group of several classes comes closer to the shares") {
  Samples samples;
  Random random(2, Stream::kSynthetic);
  for (int group = 0; group < 40; ++group) {
    for (std::int32_t label = 0; label < 3; ++label) {
      samples.add(label, std::to_string(group), static_cast<int>(random.below(6)));
    }
    samples.add(0, std::to_string(group));
  }
  // With tens of samples, the shares of every class are whole numbers.
  for (std::int32_t label = 0; label < 3; ++label) {
    while (std::count(samples.labels.begin(), samples.labels.end(), label) % 10 != 0) {
      samples.add(label, "0");
    }
  }
  const std::vector<double> shares{0.7, 0.3};
  const std::vector<std::int32_t> parts = divide(samples, shares, 5);
  CHECK(keeps_groups(samples, parts));
  std::map<std::int32_t, double> sizes, aside;
  std::map<std::string, std::map<std::int32_t, double>> of_group;
  std::map<std::string, std::int32_t> part_of;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    ++sizes[samples.labels[i]];
    aside[samples.labels[i]] += parts[i];
    ++of_group[samples.groups[i]][samples.labels[i]];
    part_of[samples.groups[i]] = parts[i];
  }
  const auto cost = [&](std::map<std::int32_t, double> counts) {
    double sum = 0;
    for (const auto& [label, size] : sizes) {
      const double difference = counts[label] - 0.3 * size;
      sum += difference * difference / size;
    }
    return sum;
  };
  const double found = cost(aside);
  for (const auto& [group, counts] : of_group) {
    std::map<std::int32_t, double> moved = aside;
    for (const auto& [label, count] : counts) moved[label] += part_of[group] == 1 ? -count : count;
    CHECK(cost(moved) >= found - 1e-9);
  }
  CHECK(found < 0.1);
}

TEST_CASE("divide_groups is a function of the seed, and of nothing else") {
  Random random(3, Stream::kSynthetic);
  const Samples samples = draw_samples(random, 6);
  const std::vector<double> shares{0.8, 0.2};
  const std::vector<std::int32_t> parts = divide(samples, shares, 1);
  CHECK(divide(samples, shares, 1) == parts);
  CHECK(divide(samples, shares, 2) != parts);
  // The names of groups do not matter.
  Samples renamed = samples;
  for (std::string& group : renamed.groups) group = group.empty() ? "" : "z" + group;
  CHECK(divide(renamed, shares, 1) == parts);
}

TEST_CASE("divide_groups takes one group for a share smaller than any group") {
  Samples samples;
  for (int group = 0; group < 3; ++group) samples.add(0, std::to_string(group), 100 + group);
  const std::vector<std::int32_t> parts = divide(samples, {0.99, 0.01}, 1);
  CHECK(std::count(parts.begin(), parts.end(), 1) == 100);
  Samples two;
  two.add(0, "a", 5);
  two.add(1, "b", 5);
  CHECK_THROWS_WITH_AS(
      divide(two, std::vector<double>(3, 1.0 / 3), 1),
      doctest::Contains("10 training samples in 2 groups cannot be divided into 3 parts"),
      DataError);
}

TEST_CASE("number_groups: samples without a name are groups of their own") {
  const std::vector<std::string> names{"a", "", "b", "a", ""};
  const Groups groups = number_groups(names, names.size());
  CHECK(groups.by_sample == std::vector<std::int64_t>{0, 1, 2, 0, 3});
  CHECK(groups.count == 4);
  CHECK(groups.ungrouped == 2);
  CHECK(number_groups({}, 3).by_sample == std::vector<std::int64_t>{0, 1, 2});
  CHECK(describe_groups(names) == "3 files in 2 groups, and 2 files that are groups of their own");
}

TEST_CASE("divide_training_samples: the folds are disjoint and contain every sample") {
  Random random(4, Stream::kSynthetic);
  const Samples samples = draw_samples(random, 4);
  for (const bool is_grouped : {true, false}) {
    CAPTURE(is_grouped);
    const std::vector<std::string> groups =
        is_grouped ? samples.groups : std::vector<std::string>{};
    config::Data data;
    data.folds = 4;
    data.validation_split = 0.5;  // a fold takes its place
    std::vector<std::int64_t> all;
    for (std::int64_t fold = 1; fold <= 4; ++fold) {
      data.fold = fold;
      const Division division = divide_training_samples(data, Strata(samples.labels), groups, 9);
      CHECK(division.train.size() + division.validation.size() == samples.labels.size());
      CHECK(std::is_sorted(division.train.begin(), division.train.end()));
      all.insert(all.end(), division.validation.begin(), division.validation.end());
      CHECK(describe_shares(data, Strata(samples.labels), division, {"a", "b", "c", "d", "e"})
                .find("(25.00 % asked for), by class a 2") != std::string::npos);
    }
    std::sort(all.begin(), all.end());
    REQUIRE(all.size() == samples.labels.size());
    for (std::size_t i = 0; i < all.size(); ++i) CHECK(all[i] == static_cast<std::int64_t>(i));
  }
}

TEST_CASE("divide_training_samples takes the samples of divide_samples without groups") {
  std::vector<std::int32_t> labels;
  for (int i = 0; i < 90; ++i) labels.push_back(i % 7 % 3);
  config::Data data;
  data.validation_split = 0.3;
  const Division division = divide_training_samples(data, Strata(labels), {}, 11);
  CHECK(division.validation == divide_samples(labels, 0.3, 11).validation);
  CHECK(describe_division_key(data, Strata(labels), {}, 11) == ", split by class 0.3 seed 11");
  std::vector<std::string> groups(90, "a"), renamed(90, "b"), others(90, "a");
  groups[3] = "c";
  renamed[3] = "a";
  others[4] = "c";
  CHECK(describe_division_key(data, Strata(labels), groups, 11) ==
        describe_division_key(data, Strata(labels), renamed, 11));
  CHECK(describe_division_key(data, Strata(labels), groups, 11) !=
        describe_division_key(data, Strata(labels), others, 11));
}

// Returns the samples from `first` to the end of `count`.
std::vector<std::int64_t> list_from(std::int64_t first, std::int64_t count) {
  std::vector<std::int64_t> samples;
  for (std::int64_t i = first; i < count; ++i) samples.push_back(i);
  return samples;
}

config::Data take_last(double fraction) {
  config::Data data;
  data.validation_split = fraction;
  data.validation_split_order = config::ValidationSplitOrder::kLast;
  return data;
}

TEST_CASE("divide_training_samples: order last takes the samples that Keras's fit() takes") {
  // The first sample of the validation part as train_validation_split() of Keras 3.15 computes it
  // (src/trainers/data_adapters/array_slicing.py): floor(n * (1.0 - validation_split)).
  struct Row {
    std::int64_t samples;
    double fraction;
    std::int64_t first;
  };
  for (const Row& row :
       {Row{10, 0.2, 8}, Row{10, 0.25, 7}, Row{10, 0.3, 7}, Row{7, 0.5, 3}, Row{10, 0.1, 9},
        Row{100, 0.1, 90}, Row{1000, 0.15, 850}, Row{10, 0.01, 9}, Row{3, 0.6, 1},
        Row{20, 0.35, 13}, Row{100, 0.29, 71}, Row{60, 0.05, 57}}) {
    CAPTURE(row.samples);
    CAPTURE(row.fraction);
    std::vector<std::int32_t> labels;
    for (std::int64_t i = 0; i < row.samples; ++i) labels.push_back(static_cast<int>(i % 3));
    for (const std::uint64_t seed : {1, 2}) {
      const Division division =
          divide_training_samples(take_last(row.fraction), Strata(labels), {}, seed);
      CHECK(division.train == list_from(0, row.first));
      CHECK(division.validation == list_from(row.first, row.samples));
    }
  }
}

TEST_CASE("divide_training_samples: order shuffled takes those of image_dataset_from_directory") {
  // The last int(fraction * n) of list(range(n)) after numpy.random.RandomState(seed).shuffle(), as
  // index_directory() and get_training_or_validation_split() of Keras 3.15 take them
  // (src/utils/dataset_utils.py), computed with NumPy 2.4.
  struct Row {
    std::int64_t samples;
    double fraction;
    std::uint64_t seed;
    std::vector<std::int64_t> validation;
  };
  for (const Row& row :
       {Row{10, 0.2, 1337, {7, 8}}, Row{10, 0.25, 123, {2, 9}}, Row{7, 0.5, 42, {3, 4, 6}},
        Row{25, 0.2, 0, {0, 3, 12, 15, 21}}, Row{40, 0.1, 4294967295, {7, 12, 34, 35}}}) {
    CAPTURE(row.samples);
    config::Data data = take_last(row.fraction);
    data.validation_split_order = config::ValidationSplitOrder::kShuffled;
    const std::vector<std::int32_t> labels(static_cast<std::size_t>(row.samples));
    const Division division = divide_training_samples(data, Strata(labels), {}, row.seed);
    CHECK(division.validation == row.validation);
    CHECK(division.train.size() + division.validation.size() == labels.size());
    CHECK(std::is_sorted(division.train.begin(), division.train.end()));
    CHECK(describe_division_key(data, Strata(labels), {}, 5) ==
          concat(", split shuffled ", row.fraction, " seed 5"));
  }
  // NumPy's order of ten samples is 6, 3, 0, 4, 5, 2, 1, 9, 8, 7; that of groups d, a, b, c, so
  // that the two samples of c come last.
  config::Data data = take_last(0.2);
  data.validation_split_order = config::ValidationSplitOrder::kShuffled;
  const std::vector<std::string> groups{"a", "b", "c", "a", "b", "c", "d", "a", "b", "d"};
  const std::vector<std::int32_t> labels(10);
  const Division division = divide_training_samples(data, Strata(labels), groups, 1337);
  CHECK(division.validation == std::vector<std::int64_t>{2, 5});
  CHECK(describe_rule(data) == "data.validation_split: 0.2 (the last samples after a shuffle)");
}

TEST_CASE(
    "divide_training_samples: order last without a sample for a part is an error as in Keras") {
  const std::vector<std::int32_t> labels(10);
  // In floating-point numbers 10 * (1 - 0.9) is less than 1.
  CHECK_THROWS_WITH_AS(
      divide_training_samples(take_last(0.9), Strata(labels), {}, 1),
      "data.validation_split: 0.9 of the 10 training samples leaves no sample for training; give "
      "more samples or another fraction",
      DataError);
  CHECK_THROWS_WITH_AS(divide_training_samples(take_last(1e-17), Strata(labels), {}, 1),
                       doctest::Contains("leaves no sample for validation"), DataError);
  CHECK_THROWS_WITH_AS(
      divide_training_samples(take_last(0.2), Strata(labels), std::vector<std::string>(10, "a"), 1),
      doctest::Contains("of the 10 training samples in 1 groups"), DataError);
}

TEST_CASE(
    "divide_training_samples: order last takes whole groups in the order of their first samples") {
  const auto find_validation = [](const std::vector<std::string>& groups, double fraction) {
    const std::vector<std::int32_t> labels(groups.size());
    const Division division =
        divide_training_samples(take_last(fraction), Strata(labels), groups, 1);
    CHECK(division.train.size() + division.validation.size() == groups.size());
    return division.validation;
  };
  using Samples = std::vector<std::int64_t>;
  // The boundary at 8 of 10 samples divides group c, of which one sample is before it.
  CHECK(find_validation({"a", "a", "a", "b", "b", "b", "b", "c", "c", "c"}, 0.2) ==
        Samples{7, 8, 9});
  // Two of the three samples of c are before the boundary.
  CHECK(find_validation({"a", "a", "a", "b", "b", "b", "c", "c", "c", "d"}, 0.2) == Samples{9});
  // The samples of a group need not stand together.
  CHECK(find_validation({"a", "b", "c", "a", "b", "c", "d", "a", "b", "d"}, 0.2) == Samples{6, 9});
  // Samples without a group count alone, as without groups.
  CHECK(find_validation({"a", "a", "", "", "", "", "", "", "", ""}, 0.2) == Samples{8, 9});
  // No part is empty.
  CHECK(find_validation({"a", "a", "a", "a", "a", "a", "a", "a", "a", "b"}, 0.5) == Samples{9});
}

TEST_CASE("divide_training_samples: order last has a fingerprint of its own without the seed") {
  const std::vector<std::int32_t> labels(10);
  const config::Data last = take_last(0.2);
  config::Data drawn = last;
  drawn.validation_split_order = config::ValidationSplitOrder::kStratified;
  CHECK(describe_division_key(last, Strata(labels), {}, 1) == ", split last 0.2");
  CHECK(describe_division_key(last, Strata(labels), {}, 2) == ", split last 0.2");
  CHECK(describe_rule(last) == "data.validation_split: 0.2 (the last samples)");
  CHECK(describe_rule(drawn) == "data.validation_split: 0.2");
  std::vector<std::string> groups(10, "a"), others(10, "a");
  groups[3] = "c";
  others[4] = "c";
  CHECK(describe_division_key(last, Strata(labels), groups, 1) !=
        describe_division_key(last, Strata(labels), others, 1));
  // A fold takes the place of the fraction, and is drawn.
  config::Data fold = last;
  fold.folds = 5;
  fold.fold = 1;
  CHECK(describe_division_key(fold, Strata(labels), {}, 1) == ", fold 1 of 5 seed 1");
  fold.validation_split_order = config::ValidationSplitOrder::kStratified;
  const Division drawn_fold = divide_training_samples(fold, Strata(labels), {}, 3);
  fold.validation_split_order = config::ValidationSplitOrder::kLast;
  CHECK(divide_training_samples(fold, Strata(labels), {}, 3).validation == drawn_fold.validation);
}

// Labels that are rare, common and unknown, and often come together.
std::vector<std::vector<float>> draw_targets(int samples) {
  const float unknown = std::numeric_limits<float>::quiet_NaN();
  Random random(8, Stream::kSynthetic);
  std::vector<std::vector<float>> targets;
  for (int i = 0; i < samples; ++i) {
    std::vector<float> labels(4);
    labels[0] = random.below(2) == 0 ? 1 : 0;
    labels[1] = random.below(20) == 0 ? 1 : 0;
    labels[2] = labels[1] == 1 && random.below(2) == 0 ? 1 : 0;
    labels[3] = i % 3 == 0 ? unknown : i % 3 == 1 ? 1 : 0;
    targets.push_back(labels);
  }
  return targets;
}

Strata make_strata(const std::vector<std::vector<float>>& targets) {
  std::vector<std::vector<std::int32_t>> present(targets.size()), unknown(targets.size());
  std::vector<LabelSet> sets;
  for (std::size_t i = 0; i < targets.size(); ++i) {
    for (std::size_t label = 0; label < targets[i].size(); ++label) {
      const float target = targets[i][label];
      if (target >= 0.5f) present[i].push_back(static_cast<std::int32_t>(label));
      if (std::isnan(target)) unknown[i].push_back(static_cast<std::int32_t>(label));
    }
    sets.push_back({present[i], unknown[i]});
  }
  return Strata(sets);
}

TEST_CASE("divide_training_samples: each of several labels per image has its share in every part") {
  const std::vector<std::vector<float>> targets = draw_targets(600);
  const Strata strata = make_strata(targets);
  CHECK(!strata.is_by_class());
  std::vector<std::string> groups;
  for (int i = 0; i < 600; ++i) groups.push_back(std::to_string(i / 2));
  for (const bool is_grouped : {false, true}) {
    CAPTURE(is_grouped);
    const std::vector<std::string> names = is_grouped ? groups : std::vector<std::string>{};
    config::Data data;
    data.validation_split = 0.2;
    for (const bool has_folds : {false, true}) {
      CAPTURE(has_folds);
      if (has_folds) {
        data.folds = 5;
        data.fold = 3;
      }
      const Division division = divide_training_samples(data, strata, names, 4);
      const auto count = [&](std::size_t label, const std::vector<std::int64_t>& samples) {
        return std::count_if(samples.begin(), samples.end(), [&](std::int64_t i) {
          return targets[static_cast<std::size_t>(i)][label] == 1;
        });
      };
      CHECK(std::abs(static_cast<double>(division.validation.size()) - 120) <= 2);
      for (std::size_t label = 0; label < 4; ++label) {
        CAPTURE(label);
        const auto aside = static_cast<double>(count(label, division.validation));
        const auto kept = static_cast<double>(count(label, division.train));
        CHECK(std::abs(aside - 0.2 * (aside + kept)) <= 2);
      }
    }
    CHECK(describe_division_key(data, strata, names, 4) !=
          describe_division_key(data, Strata(std::vector<std::int32_t>(600)), names, 4));
  }
}

TEST_CASE("describe_shares: the share of each of several labels is that of the samples with it") {
  const std::vector<std::vector<float>> targets{{1, 0}, {1, 1}, {0, 1}, {0, 0}};
  const Strata strata = make_strata(targets);
  config::Data data;
  data.validation_split = 0.25;
  CHECK(describe_shares(data, strata, {{0, 2, 3}, {1}}, {"mass", "fluid"}) ==
        "data.validation_split: 0.25 sets 25.00 % of the samples aside (25.00 % asked for), by "
        "label mass 50.00 %, fluid 50.00 %");
}

TEST_CASE("describe_shares names the extremes of many classes") {
  std::vector<std::int32_t> labels;
  std::vector<std::string> classes;
  Division division;
  for (int label = 0; label < 20; ++label) {
    classes.push_back(concat('c', label));
    for (int i = 0; i < 10; ++i) {
      const auto index = static_cast<std::int64_t>(labels.size());
      (i < (label == 3   ? 1
            : label == 5 ? 4
                         : 2)
           ? division.validation
           : division.train)
          .push_back(index);
      labels.push_back(label);
    }
  }
  config::Data data;
  data.validation_split = 0.2;
  CHECK(
      describe_shares(data, Strata(labels), division, classes) ==
      "data.validation_split: 0.2 sets 20.50 % of the samples aside (20.00 % asked for), by class "
      "from 10.00 % (c3) to 40.00 % (c5)");
}

}  // namespace trainer::data::groups_test
