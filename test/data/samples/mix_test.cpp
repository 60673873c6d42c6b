#include "data/samples/mix.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "data/arrays/array.h"
#include "data/arrays/memory_dataset.h"
#include "data/samples/loader.h"
#include "data/samples/weights.h"

namespace trainer::data::mix_test {
namespace {

using Mixing = std::vector<config::Augmentation>;
const Mixing kMixUp{{config::MixUp{0.4}, {}}};
const Mixing kCutMix{{config::CutMix{1}, {}}};
const Mixing kBoth{{config::MixUp{0.4}, {}}, {config::CutMix{1}, {}}};

constexpr std::int64_t kSize = 7, kHeight = 5, kWidth = 6, kChannels = 3, kClasses = 3;
constexpr std::size_t kPixels = kHeight * kWidth * kChannels;

template <class T>
Array draw_array(Element element, std::vector<std::int64_t> dims, T (*value)(std::size_t)) {
  Array array;
  array.source = "drawn";
  array.element = element;
  array.dims = std::move(dims);
  const auto count = static_cast<std::size_t>(array.count());
  array.buffer = Buffer(count * sizeof(T));
  for (std::size_t i = 0; i < count; ++i) {
    const T number = value(i);
    std::memcpy(array.buffer.data() + i * sizeof(T), &number, sizeof(T));
  }
  return array;
}

std::uint8_t byte_at(std::size_t i) { return static_cast<std::uint8_t>(i * 167 % 256); }
float number_at(std::size_t i) { return std::sin(static_cast<float>(i)); }
std::uint8_t label_at(std::size_t i) { return static_cast<std::uint8_t>(i % kClasses); }
std::uint8_t two_labels(std::size_t i) { return static_cast<std::uint8_t>(i % 2); }
float target_at(std::size_t i) { return static_cast<float>(i % 5) / 5; }

std::unique_ptr<Dataset> bytes_set() {
  return std::make_unique<MemoryDataset>(
      draw_array(Element::kU8, {kSize, kHeight, kWidth, kChannels}, byte_at),
      draw_array(Element::kU8, {kSize}, label_at));
}

struct Sample {
  std::vector<std::uint8_t> image = std::vector<std::uint8_t>(kPixels);
  std::vector<float> label = std::vector<float>(kClasses);
  bool operator==(const Sample&) const = default;
};
Sample read_sample(const Dataset& set, std::int64_t index, std::int64_t epoch) {
  Sample sample;
  set.get(index, epoch, sample.image.data(), sample.label.data());
  return sample;
}

Mixture draw(const Mixing& mixing, std::int64_t epoch, std::int64_t index) {
  return draw_mixture(mixing, 9, epoch, index, kSize, {kHeight, kWidth, kChannels});
}

// All samples of two epochs by (epoch, index), read as the training loop does.
std::map<std::pair<std::int64_t, std::int64_t>, Sample> read(const Dataset& set,
                                                             std::int64_t batch_size,
                                                             std::int64_t threads,
                                                             std::int64_t first = 0) {
  LoaderOptions options;
  options.batch_size = batch_size;
  options.shuffle = true;
  options.threads = threads;
  options.first_step = first;
  options.end_step = 2 * batches_per_epoch(kSize, batch_size);
  std::map<std::pair<std::int64_t, std::int64_t>, Sample> samples;
  const auto loader = make_loader(set, options);
  while (const Batch* batch = loader->next()) {
    const auto* images = static_cast<const std::uint8_t*>(batch->images);
    const auto* labels = static_cast<const float*>(batch->labels);
    for (std::size_t i = 0; i < batch->indices.size(); ++i) {
      Sample& sample = samples[{batch->range.epoch, batch->indices[i]}];
      std::copy_n(images + i * kPixels, kPixels, sample.image.begin());
      std::copy_n(labels + i * kClasses, kClasses, sample.label.begin());
    }
    loader->release();
  }
  return samples;
}

}  // namespace

TEST_CASE("draw_beta has the mean and the deviation of a Beta distribution") {
  for (const double alpha : {0.1, 0.2, 1.0, 4.0}) {
    CAPTURE(alpha);
    constexpr int kDraws = 20000;
    double sum = 0, squares = 0;
    for (std::uint64_t i = 0; i < kDraws; ++i) {
      Random random(1, Stream::kMix, 0, i);
      const double share = draw_beta(alpha, random);
      REQUIRE((share >= 0 && share <= 1));
      sum += share;
      squares += share * share;
    }
    const double mean = sum / kDraws, variance = squares / kDraws - mean * mean;
    CHECK(mean == doctest::Approx(0.5).epsilon(0.02));
    CHECK(variance == doctest::Approx(1 / (4 * (2 * alpha + 1))).epsilon(0.04));
  }
  Random random(1, Stream::kMix);
  const double extreme = draw_beta(1e-4, random);
  CHECK((extreme < 1e-6 || extreme > 1 - 1e-6));
}

TEST_CASE("mixup is the weighted mean of images and of labels") {
  const auto base = bytes_set();
  const auto mixed = mix_samples(bytes_set(), kMixUp, kClasses, 9);
  CHECK(!mixed->spec().label_is_index());
  CHECK(mixed->spec().label_width == kClasses);
  CHECK(mixed->spec().is_random);
  CHECK(mixed->fingerprint() == base->fingerprint() + ", mixup 0.4");
  std::int64_t changed = 0;
  for (std::int64_t epoch = 0; epoch < 4; ++epoch) {
    for (std::int64_t i = 0; i < kSize; ++i) {
      const Mixture m = draw(kMixUp, epoch, i);
      REQUIRE(m.partner != i);
      REQUIRE(!m.cut);
      const Sample found = read_sample(*mixed, i, epoch);
      std::vector<std::uint8_t> own(kPixels), other(kPixels);
      std::int32_t label = 0, other_label = 0;
      base->get(i, own.data(), &label);
      base->get(m.partner, other.data(), &other_label);
      double largest = 0;
      for (std::size_t p = 0; p < kPixels; ++p) {
        const double exact = m.share * own[p] + (1 - m.share) * other[p];
        largest = std::max(largest, std::abs(found.image[p] - exact));
        changed += found.image[p] != own[p] ? 1 : 0;
      }
      CHECK(largest <= 0.5 + 1e-4);  // to the nearest byte
      for (std::int64_t c = 0; c < kClasses; ++c) {
        const double exact = m.share * (c == label) + (1 - m.share) * (c == other_label);
        CHECK(static_cast<double>(found.label[static_cast<std::size_t>(c)]) ==
              doctest::Approx(exact).epsilon(1e-6));
      }
    }
  }
  CHECK(changed > 500);
  const Sample plain = read_sample(*mixed, 4, kNoEpoch);
  CHECK(plain.label == std::vector<float>{0, 1, 0});
  CHECK(std::equal(
      plain.image.begin(), plain.image.end(),
      draw_array(Element::kU8, {kSize * std::int64_t{kPixels}}, byte_at).bytes() + 4 * kPixels));
}

TEST_CASE("cutmix: the label is shared by the area of the rectangle of the partner") {
  const auto base = bytes_set();
  const auto mixed = mix_samples(bytes_set(), kCutMix, kClasses, 9);
  std::int64_t pasted = 0;
  for (std::int64_t epoch = 0; epoch < 8; ++epoch) {
    for (std::int64_t i = 0; i < kSize; ++i) {
      const Mixture m = draw(kCutMix, epoch, i);
      REQUIRE(m.cut);
      REQUIRE((m.top >= 0 && m.left >= 0 && m.height >= 0 && m.width >= 0));
      REQUIRE((m.top + m.height <= kHeight && m.left + m.width <= kWidth));
      const double area = static_cast<double>(m.height * m.width);
      CHECK(m.share == doctest::Approx(1 - area / (kHeight * kWidth)));
      pasted += m.height * m.width;
      const Sample found = read_sample(*mixed, i, epoch);
      std::vector<std::uint8_t> own(kPixels), other(kPixels), expected;
      std::int32_t label = 0, other_label = 0;
      base->get(i, own.data(), &label);
      base->get(m.partner, other.data(), &other_label);
      for (std::size_t p = 0; p < kPixels; ++p) {
        const auto y = static_cast<std::int64_t>(p) / (kWidth * kChannels);
        const auto x = static_cast<std::int64_t>(p) / kChannels % kWidth;
        const bool inside =
            y >= m.top && y < m.top + m.height && x >= m.left && x < m.left + m.width;
        expected.push_back(inside ? other[p] : own[p]);
      }
      CHECK(found.image == expected);
      CHECK(static_cast<double>(found.label[static_cast<std::size_t>(label)]) ==
            doctest::Approx(label == other_label ? 1 : m.share).epsilon(1e-6));
    }
  }
  CHECK(pasted > 100);
}

namespace {

// bytes_set() whose sample i has the weight i % 4: some have none.
class Weighed final : public Dataset {
 public:
  Weighed() : spec_(base_->spec()) { spec_.has_weights = true; }
  std::int64_t size() const override { return base_->size(); }
  const DatasetSpec& spec() const override { return spec_; }
  using Dataset::get;
  void get(std::int64_t index, std::int64_t epoch, void* image, void* label) const override {
    base_->get(index, epoch, image, label);
  }
  float weight_at(std::int64_t index) const override { return static_cast<float>(index % 4); }
  std::string fingerprint() const override { return base_->fingerprint(); }

 private:
  std::unique_ptr<Dataset> base_ = bytes_set();
  DatasetSpec spec_;
};

}  // namespace

TEST_CASE("mixed samples with weights: targets times weight are the sum of both samples'") {
  for (const Mixing& mixing : {kMixUp, kCutMix}) {
    const auto mixed =
        mix_samples(weigh_samples(std::make_unique<Weighed>(), kClasses), mixing, kClasses, 9);
    const auto plain = mix_samples(bytes_set(), mixing, kClasses, 9);
    REQUIRE(mixed->spec().label_width == kClasses + 1);
    CHECK(mixed->spec().has_weights);
    int weightless = 0;
    for (std::int64_t epoch = 0; epoch < 8; ++epoch) {
      for (std::int64_t i = 0; i < kSize; ++i) {
        const Mixture m = draw(mixing, epoch, i);
        Sample found;
        found.label.resize(kClasses + 1);
        mixed->get(i, epoch, found.image.data(), found.label.data());
        CHECK(found.image == read_sample(*plain, i, epoch).image);
        const double own = m.share * static_cast<double>(i % 4);
        const double other = (1 - m.share) * static_cast<double>(m.partner % 4);
        const auto weight = static_cast<double>(found.label.back());
        CHECK(weight == doctest::Approx(own + other).epsilon(1e-6));
        weightless += weight > 0 ? 0 : 1;
        double sum = 0;
        for (std::int64_t c = 0; c < kClasses; ++c) {
          const auto target = static_cast<double>(found.label[static_cast<std::size_t>(c)]);
          const double exact = own * (c == i % kClasses) + other * (c == m.partner % kClasses);
          CHECK(weight * target == doctest::Approx(exact).epsilon(1e-5));
          sum += target;
        }
        CHECK(sum == doctest::Approx(1).epsilon(1e-6));
      }
    }
    CHECK(weightless > 0);
  }
}

TEST_CASE("draw_mixture: partners, kinds and shares are uniform") {
  std::map<std::int64_t, int> partners;
  int cuts = 0;
  constexpr int kDraws = 6000;
  for (std::int64_t epoch = 0; epoch < kDraws; ++epoch) {
    const Mixture m = draw(kBoth, epoch, 3);
    ++partners[m.partner];
    cuts += m.cut ? 1 : 0;
  }
  CHECK(partners.size() == kSize - 1);
  for (const auto& [partner, count] : partners) CHECK(std::abs(count - 1000) < 150);
  CHECK(std::abs(cuts - kDraws / 2) < 200);
  // A single sample can only be mixed with itself.
  CHECK(draw_mixture(kMixUp, 1, 0, 0, 1, {1, 1, 1}).partner == 0);
}

TEST_CASE("mixup and cutmix end after their epochs") {
  const Mixing ending{{config::MixUp{0.4, 2}, {}}, {config::CutMix{1, 4}, {}}};
  for (std::int64_t epoch = 0; epoch < 6; ++epoch) {
    const Mixing& expected = epoch < 2 ? kBoth : kCutMix;
    for (std::int64_t index = 0; index < kSize; ++index) {
      const Mixture mixture = draw(ending, epoch, index);
      CHECK(mixture.mixes == (epoch < 4));
      if (epoch >= 4) continue;
      const Mixture other = draw(expected, epoch, index);
      CHECK(mixture.cut == other.cut);
      CHECK(mixture.partner == other.partner);
      CHECK(mixture.share == other.share);
    }
  }
}

TEST_CASE("mixed samples: an epoch with repeats counts once, and later samples are unchanged") {
  const auto mixed = mix_samples(bytes_set(), {{config::MixUp{0.4, 2}, {}}}, kClasses, 9, 3);
  const auto plain = mix_samples(bytes_set(), {}, kClasses, 9);
  for (std::int64_t index = 0; index < kSize; ++index) {
    CHECK(read_sample(*mixed, index, 5) != read_sample(*plain, index, 5));
    CHECK(read_sample(*mixed, index, 6) == read_sample(*plain, index, 6));
  }
  CHECK(mixed->fingerprint() == plain->fingerprint() + ", mixup 0.4 before epoch 6");
}

TEST_CASE("mixed samples are a function of seed, epoch and index") {
  const auto mixed = mix_samples(bytes_set(), kBoth, kClasses, 9);
  const auto all = read(*mixed, 3, 0);
  CHECK(all.size() == 2 * kSize);
  int different = 0;
  for (std::int64_t i = 0; i < kSize; ++i) {
    CHECK(all.at({1, i}) == read_sample(*mixed, i, 1));
    different += all.at({0, i}) != all.at({1, i}) ? 1 : 0;
  }
  CHECK(different > kSize / 2);
  CHECK(read(*mixed, 3, 1) == all);
  CHECK(read(*mixed, 3, 4) == all);
  CHECK(read(*mixed, 2, 2) == all);
  for (const auto& [key, sample] : read(*mixed, 3, 2, 4)) CHECK(sample == all.at(key));
  CHECK(read(*mix_samples(bytes_set(), kBoth, kClasses, 10), 3, 0) != all);
}

TEST_CASE("mixed samples: one logit, float targets and float images have the means") {
  const auto binary =
      mix_samples(std::make_unique<MemoryDataset>(draw_array(Element::kU8, {kSize, 2, 2}, byte_at),
                                                  draw_array(Element::kU8, {kSize}, two_labels)),
                  kMixUp, 1, 9);
  const auto floats = mix_samples(
      std::make_unique<MemoryDataset>(draw_array(Element::kF32, {kSize, 2, 2}, number_at),
                                      draw_array(Element::kF32, {kSize, 4}, target_at)),
      kMixUp, kClasses, 9);
  CHECK(binary->spec().label_width == 1);
  CHECK(floats->spec().label_width == 4);
  for (std::int64_t i = 0; i < kSize; ++i) {
    const Mixture m = draw_mixture(kMixUp, 9, 2, i, kSize, {2, 2, 1});
    const auto mean = [&](double own, double other) {
      return doctest::Approx(m.share * own + (1 - m.share) * other).epsilon(1e-5);
    };
    std::uint8_t bytes[4];
    float share = -1;
    binary->get(i, 2, bytes, &share);
    CHECK(static_cast<double>(share) ==
          mean(static_cast<double>(i % 2), static_cast<double>(m.partner % 2)));
    float image[4], target[4];
    floats->get(i, 2, image, target);
    for (std::size_t k = 0; k < 4; ++k) {
      const std::size_t own = static_cast<std::size_t>(i) * 4 + k;
      const std::size_t other = static_cast<std::size_t>(m.partner) * 4 + k;
      CHECK(static_cast<double>(image[k]) ==
            mean(static_cast<double>(number_at(own)), static_cast<double>(number_at(other))));
      CHECK(static_cast<double>(target[k]) ==
            mean(static_cast<double>(target_at(own)), static_cast<double>(target_at(other))));
    }
  }
}

}  // namespace trainer::data::mix_test
