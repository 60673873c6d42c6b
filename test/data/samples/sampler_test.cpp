#include "data/samples/sampler.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace trainer::data {
namespace {

std::vector<std::int64_t> order(std::int64_t size, std::uint64_t seed, std::int64_t epoch) {
  const Sampler sampler(size, seed, true);
  std::vector<std::int64_t> result;
  for (std::int64_t i = 0; i < size; ++i) result.push_back(sampler.index(epoch, i));
  return result;
}

// Labels without images: a class per sample, or rows of several labels.
class Labelled final : public Dataset {
 public:
  explicit Labelled(std::vector<std::int32_t> classes)
      : classes_(std::move(classes)), size_(static_cast<std::int64_t>(classes_.size())) {}
  explicit Labelled(const std::vector<std::vector<float>>& targets)
      : size_(static_cast<std::int64_t>(targets.size())) {
    spec_.label_kind = LabelKind::kMultiLabel;
    for (const std::vector<float>& row : targets) {
      present_.emplace_back();
      unknown_.emplace_back();
      for (std::size_t i = 0; i < row.size(); ++i) {
        const auto label = static_cast<std::int32_t>(i);
        if (row[i] == 1) present_.back().push_back(label);
        if (std::isnan(row[i])) unknown_.back().push_back(label);
      }
    }
  }
  std::int64_t size() const override { return size_; }
  const DatasetSpec& spec() const override { return spec_; }
  void get(std::int64_t, std::int64_t, void*, void*) const override {}
  std::int32_t label_at(std::int64_t index) const override {
    return classes_[static_cast<std::size_t>(index)];
  }
  LabelSet label_set_at(std::int64_t index) const override {
    const auto sample = static_cast<std::size_t>(index);
    return {present_[sample], unknown_[sample]};
  }
  std::string fingerprint() const override { return ""; }

 private:
  std::vector<std::int32_t> classes_;
  std::vector<std::vector<std::int32_t>> present_, unknown_;
  std::int64_t size_;
  DatasetSpec spec_;
};

}  // namespace

TEST_CASE("sampler: each epoch is a permutation for any size") {
  for (const std::int64_t size : {1, 2, 3, 7, 255, 256, 257, 1000, 4097, 60000}) {
    auto sorted = order(size, 42, 3);
    std::sort(sorted.begin(), sorted.end());
    bool whole = true;
    for (std::int64_t i = 0; i < size; ++i) whole &= sorted[static_cast<std::size_t>(i)] == i;
    CAPTURE(size);
    CHECK(whole);
  }
}

TEST_CASE("sampler: another epoch or seed gives another order") {
  CHECK(order(1000, 1, 0) == order(1000, 1, 0));
  CHECK(order(1000, 1, 0) != order(1000, 1, 1));
  CHECK(order(1000, 1, 0) != order(1000, 2, 0));
  const Sampler plain(10, 1, false);
  for (std::int64_t i = 0; i < 10; ++i) CHECK(plain.index(4, i) == i);
}

TEST_CASE("sampler: many positions at once are the same as one by one") {
  const Sampler sampler(1000, 5, true);
  std::vector<std::int64_t> several(100);
  sampler.indices(2, 300, several);
  for (std::size_t i = 0; i < several.size(); ++i) {
    CHECK(several[i] == sampler.index(2, 300 + static_cast<std::int64_t>(i)));
  }
}

TEST_CASE("balanced_sampler takes as many samples for each of several labels and for none") {
  constexpr float kUnknown = std::numeric_limits<float>::quiet_NaN();
  // 60 samples of label 0, of which 6 have label 1 too, and 30 without a label.
  std::vector<std::vector<float>> targets;
  for (int i = 0; i < 60; ++i) targets.push_back({1, i < 6 ? 1.0f : 0.0f});
  for (int i = 0; i < 30; ++i) targets.push_back({0, kUnknown});
  const Sampler sampler = balanced_sampler(Labelled(targets), 3);
  std::vector<std::int64_t> order(90);
  sampler.indices(0, 0, order);
  const auto count = [&](std::int64_t begin, std::int64_t end) {
    return std::count_if(order.begin(), order.end(),
                         [&](std::int64_t index) { return index >= begin && index < end; });
  };
  // 30 turns of each: label 1 gives five rounds of its 6 samples, and label 0 30 of its 60.
  CHECK(count(60, 90) == 30);
  CHECK(count(0, 6) >= 30);
  CHECK(count(6, 60) <= 30);
  CHECK(count(0, 60) == 60);
  for (std::int64_t i = 60; i < 90; ++i) CHECK(count(i, i + 1) == 1);
  for (std::int64_t i = 0; i < 6; ++i) CHECK((count(i, i + 1) == 5 || count(i, i + 1) == 6));
}

TEST_CASE("sampler: balanced takes as many samples of each class in an epoch") {
  std::vector<std::int32_t> labels;
  for (const auto& [label, count] : {std::pair{0, 900}, {1, 90}, {3, 10}, {4, 1}}) {
    labels.insert(labels.end(), static_cast<std::size_t>(count), label);
  }
  const Sampler sampler = balanced_sampler(Labelled(labels), 7);
  const auto size = static_cast<std::int64_t>(labels.size());
  std::vector<std::int64_t> first;
  for (const std::int64_t epoch : {0, 1}) {
    std::vector<std::int64_t> order(labels.size());
    sampler.indices(epoch, 0, order);
    std::map<std::int32_t, std::int64_t> of_class;
    std::map<std::int64_t, std::int64_t> of_sample;
    for (const std::int64_t index : order) {
      REQUIRE(index >= 0);
      REQUIRE(index < size);
      ++of_class[labels[static_cast<std::size_t>(index)]];
      ++of_sample[index];
    }
    REQUIRE(of_class.size() == 4);
    for (const auto& [label, count] : of_class) CHECK(std::abs(count - size / 4) <= 1);
    for (const auto& [index, count] : of_sample) {
      const std::int32_t label = labels[static_cast<std::size_t>(index)];
      if (label == 0) CHECK(count == 1);
      if (label == 1) CHECK((count == 2 || count == 3));
      if (label == 3) CHECK((count == 25 || count == 26));
    }
    // Neither by class nor the same every epoch.
    CHECK(of_class.size() == 4);
    CHECK(order != first);
    first = order;
    for (const std::int64_t at : {0, 13, 500}) {
      CHECK(sampler.index(epoch, at) == order[static_cast<std::size_t>(at)]);
    }
  }
  CHECK(balanced_sampler(Labelled(labels), 7).index(1, 5) == first[5]);
  CHECK(balanced_sampler(Labelled(labels), 8).index(1, 5) != first[5]);
}

// Chi-squared tests at six standard deviations: a wrong permutation fails, a fair one never does.
TEST_CASE("sampler: every sample is at every place equally often over many epochs") {
  constexpr std::int64_t kSize = 50;
  constexpr int kEpochs = 20000;
  std::vector<int> first(kSize), distance(kSize);
  std::map<std::vector<std::int64_t>, int> triples;
  for (int epoch = 0; epoch < kEpochs; ++epoch) {
    const Sampler sampler(kSize, 9, true);
    const std::int64_t a = sampler.index(epoch, 0);
    const std::int64_t b = sampler.index(epoch, 1);
    ++first[static_cast<std::size_t>(a)];
    ++distance[static_cast<std::size_t>((b - a + kSize) % kSize)];
    ++triples[order(3, 9, epoch)];
  }
  const auto chi = [](auto begin, auto end, double expected) {
    double sum = 0;
    for (; begin != end; ++begin) sum += (*begin - expected) * (*begin - expected) / expected;
    return sum;
  };
  CHECK(distance[0] == 0);
  const double places = kSize - 1;
  CHECK(std::abs(chi(first.begin(), first.end(), kEpochs / 50.0) - places) <
        6 * std::sqrt(2 * places));
  CHECK(std::abs(chi(distance.begin() + 1, distance.end(), kEpochs / 49.0) - (places - 1)) <
        6 * std::sqrt(2 * places));
  REQUIRE(triples.size() == 6);
  std::vector<int> counts;
  for (const auto& [triple, count] : triples) counts.push_back(count);
  CHECK(chi(counts.begin(), counts.end(), kEpochs / 6.0) < 5 + 6 * std::sqrt(10.0));
}

TEST_CASE("batch_range divides an epoch into batches, and the last one is short") {
  CHECK(batches_per_epoch(10, 4) == 3);
  CHECK(batches_per_epoch(8, 4) == 2);
  CHECK(batches_per_epoch(3, 4) == 1);
  const BatchRange last = batch_range(10, 4, 5);
  CHECK(last.epoch == 1);
  CHECK(last.first == 8);
  CHECK(last.count == 2);
  CHECK(batch_range(10, 4, 6).epoch == 2);
  CHECK(batch_range(10, 4, 6).count == 4);
}

}  // namespace trainer::data
