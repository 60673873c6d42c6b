#include "data/samples/mix.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>

#include "base/error.h"

namespace trainer::data {
namespace {

// Draws a number in (0, 1), so that its logarithm is finite.
double open_uniform(Random& random) {
  return (static_cast<double>(random.next_u64() >> 11) + 0.5) * 0x1.0p-53;
}

// Draws the logarithm of a number from Gamma(alpha, 1); for small alpha the number underflows.
// Marsaglia and Tsang, "A Simple Method for Generating Gamma Variables", 2000.
double draw_log_gamma(double alpha, Random& random) {
  if (alpha < 1) {
    const double larger = draw_log_gamma(alpha + 1, random);
    return larger + std::log(open_uniform(random)) / alpha;
  }
  const double d = alpha - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double x = static_cast<double>(random.normal()), root = 1 + c * x;
    if (root <= 0) continue;
    const double v = root * root * root;
    if (std::log(open_uniform(random)) < 0.5 * x * x + d - d * v + d * std::log(v)) {
      return std::log(d * v);
    }
  }
}

// Calls `use` with the config::MixUp or config::CutMix of an entry.
template <class Entry, class Use>
auto with_mixing(Entry& entry, const Use& use) {
  auto* const cut = std::get_if<config::CutMix>(&entry.kind);
  return cut != nullptr ? use(*cut) : use(std::get<config::MixUp>(entry.kind));
}

double find_alpha(const config::Augmentation& entry) {
  return with_mixing(entry, [](const auto& mixing) { return mixing.alpha; });
}

bool is_active(const config::Augmentation& entry, std::int64_t epoch) {
  return with_mixing(entry,
                     [=](const auto& mixing) { return !mixing.epochs || epoch < *mixing.epochs; });
}

// Draws a side of the rectangle around a random centre, cut off at the edges of the image.
void draw_side(std::int64_t size, double half_share, Random& random, std::int64_t& first,
               std::int64_t& count) {
  const auto centre = static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(size)));
  const auto half = static_cast<std::int64_t>(half_share * static_cast<double>(size));
  first = std::max<std::int64_t>(centre - half, 0);
  count = std::min(centre + half, size) - first;
}

float interpolate(float a, float b, float share) { return share * a + (1 - share) * b; }

void average(std::span<float> to, std::span<const float> other, float share) {
  for (std::size_t i = 0; i < to.size(); ++i) to[i] = interpolate(to[i], other[i], share);
}
void average(std::span<std::uint8_t> to, std::span<const std::uint8_t> other, float share) {
  for (std::size_t i = 0; i < to.size(); ++i) {
    const float mean = interpolate(static_cast<float>(to[i]), static_cast<float>(other[i]), share);
    to[i] = static_cast<std::uint8_t>(mean + 0.5f);
  }
}

// Averages two rows of labels. If they end with weights, the mixed row has the weight
// w = share * w_a + (1 - share) * w_b and the targets (share * w_a * a + (1 - share) * w_b * b) /
// w, so that w * loss is share * w_a * loss(a) + (1 - share) * w_b * loss(b) for each loss that is
// linear in the targets, such as cross-entropies; mean_squared_error has the same gradient.
void average_labels(std::span<float> row, std::span<const float> other, float share,
                    bool has_weights) {
  if (!has_weights) return average(row, other, share);
  const float weight = share * row.back(), other_weight = (1 - share) * other.back(),
              sum = weight + other_weight;
  const std::size_t targets = row.size() - 1;
  average(row.first(targets), other.first(targets), sum > 0 ? weight / sum : share);
  row.back() = sum;
}

class MixedDataset final : public Dataset {
 public:
  MixedDataset(std::unique_ptr<Dataset> base, std::vector<config::Augmentation> mixing,
               std::int64_t label_width, std::uint64_t seed)
      : base_(std::move(base)),
        mixing_(std::move(mixing)),
        spec_(base_->spec()),
        elements_(spec_.image_shape.elements()),
        seed_(seed) {
    if (spec_.label_is_index()) spec_.label_width = label_width;
    if (!spec_.is_multi_label()) spec_.label_kind = LabelKind::kTargets;
    spec_.is_random = true;
  }

  std::int32_t label_at(std::int64_t index) const override { return base_->label_at(index); }
  LabelSet label_set_at(std::int64_t index) const override { return base_->label_set_at(index); }
  float weight_at(std::int64_t index) const override { return base_->weight_at(index); }
  std::int64_t size() const override { return base_->size(); }
  const DatasetSpec& spec() const override { return spec_; }
  std::string describe(std::int64_t index) const override { return base_->describe(index); }
  std::string fingerprint() const override { return base_->fingerprint() + mixing_text(); }
  std::string common_content() const override { return base_->common_content() + mixing_text(); }

  using Dataset::get;
  void get(std::int64_t index, std::int64_t epoch, void* image, void* label) const override {
    const std::span row(static_cast<float*>(label), spec_.label_width);
    read(index, epoch, image, row);
    if (epoch == kNoEpoch) return;
    const Mixture mixture = draw_mixture(mixing_, seed_, epoch, index, size(), spec_.image_shape);
    if (!mixture.mixes) return;
    thread_local std::vector<std::uint8_t> other;
    thread_local std::vector<float> other_row;
    other.resize(spec_.image_bytes());
    other_row.resize(row.size());
    read(mixture.partner, epoch, other.data(), other_row);
    average_labels(row, other_row, static_cast<float>(mixture.share), spec_.ends_with_weight);
    if (mixture.cut) {
      paste(mixture, other.data(), image);
    } else if (spec_.image_type == DType::kUInt8) {
      average(std::span(static_cast<std::uint8_t*>(image), elements_), other,
              static_cast<float>(mixture.share));
    } else {
      average(std::span(static_cast<float*>(image), elements_),
              std::span(reinterpret_cast<const float*>(other.data()), elements_),
              static_cast<float>(mixture.share));
    }
  }

 private:
  std::string mixing_text() const {
    std::string text;
    for (const config::Augmentation& entry : mixing_) {
      const bool cut = std::holds_alternative<config::CutMix>(entry.kind);
      text += concat(", ", cut ? "cutmix " : "mixup ", find_alpha(entry));
      with_mixing(entry, [&](const auto& mixing) {
        if (mixing.epochs) text += concat(" before epoch ", *mixing.epochs);
      });
    }
    return text;
  }
  void read(std::int64_t index, std::int64_t epoch, void* image, std::span<float> row) const {
    if (!base_->spec().label_is_index()) return base_->get(index, epoch, image, row.data());
    std::int32_t label = 0;
    base_->get(index, epoch, image, &label);
    write_label_row(label, row);
  }

  void paste(const Mixture& mixture, const std::uint8_t* from, void* image) const {
    const Shape& shape = spec_.image_shape;
    const auto pixel = static_cast<std::size_t>(shape[2]) * size_of(spec_.image_type);
    for (std::int64_t y = mixture.top; y < mixture.top + mixture.height; ++y) {
      const std::size_t at = static_cast<std::size_t>(y * shape[1] + mixture.left) * pixel;
      std::memcpy(static_cast<std::uint8_t*>(image) + at, from + at,
                  static_cast<std::size_t>(mixture.width) * pixel);
    }
  }

  std::unique_ptr<Dataset> base_;
  std::vector<config::Augmentation> mixing_;
  DatasetSpec spec_;
  std::size_t elements_;  // per image
  std::uint64_t seed_;
};

}  // namespace

void write_label_row(std::int32_t label, std::span<float> row) {
  for (std::size_t c = 0; c < row.size(); ++c) {
    const bool one = row.size() == 1 ? label > 0 : static_cast<std::size_t>(label) == c;
    row[c] = one ? 1.0f : 0.0f;
  }
}

double draw_beta(double alpha, Random& random) {
  const double a = draw_log_gamma(alpha, random), b = draw_log_gamma(alpha, random);
  return 1 / (1 + std::exp(b - a));
}

Mixture draw_mixture(const std::vector<config::Augmentation>& mixing, std::uint64_t seed,
                     std::int64_t epoch, std::int64_t index, std::int64_t size,
                     const Shape& image) {
  const auto active = [=](const config::Augmentation& entry) { return is_active(entry, epoch); };
  const auto count = static_cast<std::uint64_t>(std::ranges::count_if(mixing, active));
  if (count == 0) return {index, 1, false};
  Random random(seed, Stream::kMix, static_cast<std::uint64_t>(epoch),
                static_cast<std::uint64_t>(index));
  Mixture mixture;
  mixture.partner = index;
  if (size > 1) {
    const std::uint64_t further = 1 + random.below(static_cast<std::uint64_t>(size - 1));
    mixture.partner = (index + static_cast<std::int64_t>(further)) % size;
  }
  auto drawn = std::ranges::find_if(mixing, active);
  for (std::uint64_t left = random.below(count); left > 0; --left) {
    drawn = std::find_if(drawn + 1, mixing.end(), active);
  }
  const config::Augmentation& entry = *drawn;
  mixture.share = draw_beta(find_alpha(entry), random);
  mixture.cut = std::holds_alternative<config::CutMix>(entry.kind);
  if (!mixture.cut) return mixture;
  const double half = 0.5 * std::sqrt(1 - mixture.share);
  draw_side(image[0], half, random, mixture.top, mixture.height);
  draw_side(image[1], half, random, mixture.left, mixture.width);
  // The share after the rectangle was cut off at the edges.
  mixture.share = 1 - static_cast<double>(mixture.height * mixture.width) /
                          static_cast<double>(image[0] * image[1]);
  return mixture;
}

std::unique_ptr<Dataset> mix_samples(std::unique_ptr<Dataset> dataset,
                                     const std::vector<config::Augmentation>& augment,
                                     std::int64_t label_width, std::uint64_t seed,
                                     std::int64_t repeats) {
  std::vector<config::Augmentation> mixing;
  std::copy_if(augment.begin(), augment.end(), std::back_inserter(mixing), config::is_mixing);
  for (config::Augmentation& entry : mixing) {
    with_mixing(entry, [=](auto& each) {
      if (each.epochs) *each.epochs *= repeats;
    });
  }
  return std::make_unique<MixedDataset>(std::move(dataset), std::move(mixing), label_width, seed);
}

}  // namespace trainer::data
