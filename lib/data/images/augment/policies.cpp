#include "data/images/augment/policies.h"

#include <cmath>

namespace trainer::data {
namespace {

using Op = PixelOp;

constexpr Op kOps[] = {Op::kIdentity,     Op::kShearX,    Op::kShearY,     Op::kTranslateX,
                       Op::kTranslateY,   Op::kRotate,    Op::kBrightness, Op::kColor,
                       Op::kContrast,     Op::kSharpness, Op::kPosterize,  Op::kSolarize,
                       Op::kAutoContrast, Op::kEqualize};

// Cubuk et al., "AutoAugment: Learning Augmentation Policies from Data", 2019.
constexpr PolicyPair kImageNet[] = {
    {{{Op::kPosterize, 0.4f, 8}, {Op::kRotate, 0.6f, 9}}},
    {{{Op::kSolarize, 0.6f, 5}, {Op::kAutoContrast, 0.6f, -1}}},
    {{{Op::kEqualize, 0.8f, -1}, {Op::kEqualize, 0.6f, -1}}},
    {{{Op::kPosterize, 0.6f, 7}, {Op::kPosterize, 0.6f, 6}}},
    {{{Op::kEqualize, 0.4f, -1}, {Op::kSolarize, 0.2f, 4}}},
    {{{Op::kEqualize, 0.4f, -1}, {Op::kRotate, 0.8f, 8}}},
    {{{Op::kSolarize, 0.6f, 3}, {Op::kEqualize, 0.6f, -1}}},
    {{{Op::kPosterize, 0.8f, 5}, {Op::kEqualize, 1, -1}}},
    {{{Op::kRotate, 0.2f, 3}, {Op::kSolarize, 0.6f, 8}}},
    {{{Op::kEqualize, 0.6f, -1}, {Op::kPosterize, 0.4f, 6}}},
    {{{Op::kRotate, 0.8f, 8}, {Op::kColor, 0.4f, 0}}},
    {{{Op::kRotate, 0.4f, 9}, {Op::kEqualize, 0.6f, -1}}},
    {{{Op::kEqualize, 0, -1}, {Op::kEqualize, 0.8f, -1}}},
    {{{Op::kInvert, 0.6f, -1}, {Op::kEqualize, 1, -1}}},
    {{{Op::kColor, 0.6f, 4}, {Op::kContrast, 1, 8}}},
    {{{Op::kRotate, 0.8f, 8}, {Op::kColor, 1, 2}}},
    {{{Op::kColor, 0.8f, 8}, {Op::kSolarize, 0.8f, 7}}},
    {{{Op::kSharpness, 0.4f, 7}, {Op::kInvert, 0.6f, -1}}},
    {{{Op::kShearX, 0.6f, 5}, {Op::kEqualize, 1, -1}}},
    {{{Op::kColor, 0.4f, 0}, {Op::kEqualize, 0.6f, -1}}},
    {{{Op::kEqualize, 0.4f, -1}, {Op::kSolarize, 0.2f, 4}}},
    {{{Op::kSolarize, 0.6f, 5}, {Op::kAutoContrast, 0.6f, -1}}},
    {{{Op::kInvert, 0.6f, -1}, {Op::kEqualize, 1, -1}}},
    {{{Op::kColor, 0.6f, 4}, {Op::kContrast, 1, 8}}},
    {{{Op::kEqualize, 0.8f, -1}, {Op::kEqualize, 0.6f, -1}}},
};
constexpr PolicyPair kCifar10[] = {
    {{{Op::kInvert, 0.1f, -1}, {Op::kContrast, 0.2f, 6}}},
    {{{Op::kRotate, 0.7f, 2}, {Op::kTranslateX, 0.3f, 9}}},
    {{{Op::kSharpness, 0.8f, 1}, {Op::kSharpness, 0.9f, 3}}},
    {{{Op::kShearY, 0.5f, 8}, {Op::kTranslateY, 0.7f, 9}}},
    {{{Op::kAutoContrast, 0.5f, -1}, {Op::kEqualize, 0.9f, -1}}},
    {{{Op::kShearY, 0.2f, 7}, {Op::kPosterize, 0.3f, 7}}},
    {{{Op::kColor, 0.4f, 3}, {Op::kBrightness, 0.6f, 7}}},
    {{{Op::kSharpness, 0.3f, 9}, {Op::kBrightness, 0.7f, 9}}},
    {{{Op::kEqualize, 0.6f, -1}, {Op::kEqualize, 0.5f, -1}}},
    {{{Op::kContrast, 0.6f, 7}, {Op::kSharpness, 0.6f, 5}}},
    {{{Op::kColor, 0.7f, 7}, {Op::kTranslateX, 0.5f, 8}}},
    {{{Op::kEqualize, 0.3f, -1}, {Op::kAutoContrast, 0.4f, -1}}},
    {{{Op::kTranslateY, 0.4f, 3}, {Op::kSharpness, 0.2f, 6}}},
    {{{Op::kBrightness, 0.9f, 6}, {Op::kColor, 0.2f, 8}}},
    {{{Op::kSolarize, 0.5f, 2}, {Op::kInvert, 0, -1}}},
    {{{Op::kEqualize, 0.2f, -1}, {Op::kAutoContrast, 0.6f, -1}}},
    {{{Op::kEqualize, 0.2f, -1}, {Op::kEqualize, 0.6f, -1}}},
    {{{Op::kColor, 0.9f, 9}, {Op::kEqualize, 0.6f, -1}}},
    {{{Op::kAutoContrast, 0.8f, -1}, {Op::kSolarize, 0.2f, 8}}},
    {{{Op::kBrightness, 0.1f, 3}, {Op::kColor, 0.7f, 0}}},
    {{{Op::kSolarize, 0.4f, 5}, {Op::kAutoContrast, 0.9f, -1}}},
    {{{Op::kTranslateY, 0.9f, 9}, {Op::kTranslateY, 0.7f, 9}}},
    {{{Op::kAutoContrast, 0.9f, -1}, {Op::kSolarize, 0.8f, 3}}},
    {{{Op::kEqualize, 0.8f, -1}, {Op::kInvert, 0.1f, -1}}},
    {{{Op::kTranslateY, 0.7f, 9}, {Op::kAutoContrast, 0.9f, -1}}},
};
constexpr PolicyPair kSvhn[] = {
    {{{Op::kShearX, 0.9f, 4}, {Op::kInvert, 0.2f, -1}}},
    {{{Op::kShearY, 0.9f, 8}, {Op::kInvert, 0.7f, -1}}},
    {{{Op::kEqualize, 0.6f, -1}, {Op::kSolarize, 0.6f, 6}}},
    {{{Op::kInvert, 0.9f, -1}, {Op::kEqualize, 0.6f, -1}}},
    {{{Op::kEqualize, 0.6f, -1}, {Op::kRotate, 0.9f, 3}}},
    {{{Op::kShearX, 0.9f, 4}, {Op::kAutoContrast, 0.8f, -1}}},
    {{{Op::kShearY, 0.9f, 8}, {Op::kInvert, 0.4f, -1}}},
    {{{Op::kShearY, 0.9f, 5}, {Op::kSolarize, 0.2f, 6}}},
    {{{Op::kInvert, 0.9f, -1}, {Op::kAutoContrast, 0.8f, -1}}},
    {{{Op::kEqualize, 0.6f, -1}, {Op::kRotate, 0.9f, 3}}},
    {{{Op::kShearX, 0.9f, 4}, {Op::kSolarize, 0.3f, 3}}},
    {{{Op::kShearY, 0.8f, 8}, {Op::kInvert, 0.7f, -1}}},
    {{{Op::kEqualize, 0.9f, -1}, {Op::kTranslateY, 0.6f, 6}}},
    {{{Op::kInvert, 0.9f, -1}, {Op::kEqualize, 0.6f, -1}}},
    {{{Op::kContrast, 0.3f, 3}, {Op::kRotate, 0.8f, 4}}},
    {{{Op::kInvert, 0.8f, -1}, {Op::kTranslateY, 0, 2}}},
    {{{Op::kShearY, 0.7f, 6}, {Op::kSolarize, 0.4f, 8}}},
    {{{Op::kInvert, 0.6f, -1}, {Op::kRotate, 0.8f, 4}}},
    {{{Op::kShearY, 0.3f, 7}, {Op::kTranslateX, 0.9f, 3}}},
    {{{Op::kShearX, 0.1f, 6}, {Op::kInvert, 0.6f, -1}}},
    {{{Op::kSolarize, 0.7f, 2}, {Op::kTranslateY, 0.6f, 7}}},
    {{{Op::kShearY, 0.8f, 4}, {Op::kInvert, 0.8f, -1}}},
    {{{Op::kShearX, 0.7f, 9}, {Op::kTranslateY, 0.8f, 3}}},
    {{{Op::kShearY, 0.8f, 5}, {Op::kAutoContrast, 0.7f, -1}}},
    {{{Op::kShearX, 0.7f, 2}, {Op::kInvert, 0.1f, -1}}},
};

constexpr int kAutoAugmentBins = 10;

// Returns numbers from `first` to `last`. Each half is counted from its end, so that both ends are
// exact, and rounded once, as linspace of PyTorch does.
std::vector<float> evenly(float first, float last, int bins) {
  std::vector<float> values(bins);
  const float step = (last - first) / static_cast<float>(bins - 1);
  for (int i = 0; i < bins; ++i) {
    values[i] = i < bins / 2 ? std::fma(step, static_cast<float>(i), first)
                             : std::fma(-step, static_cast<float>(bins - 1 - i), last);
  }
  return values;
}

// Returns numbers of bits from 8 to 8 - `max_fewer`.
std::vector<float> bits(int max_fewer, int bins) {
  std::vector<float> values(bins);
  const float step = static_cast<float>((bins - 1) / static_cast<double>(max_fewer));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = 8 - std::nearbyint(static_cast<float>(i) / step);
  }
  return values;
}

double choose_magnitude(Op op, Strength strength, int bins, int bin, bool negative,
                        const Pixels& image) {
  const std::vector<float> values = magnitudes(op, strength, bins, image.height(), image.width());
  if (values.empty()) return 0;
  const double value = static_cast<double>(values[bin]);
  return negative && is_signed(op) ? -value : value;
}

}  // namespace

std::span<const PixelOp> policy_ops() { return kOps; }

bool is_signed(PixelOp op) { return op >= Op::kShearX && op <= Op::kSharpness; }

std::vector<float> magnitudes(PixelOp op, Strength strength, int bins, int height, int width) {
  const bool wide = strength == Strength::kWide;
  const auto largest_move = [wide](int side) {
    return wide ? 32.0f : static_cast<float>(150.0 / 331.0 * side);
  };
  switch (op) {
    case Op::kShearX:
    case Op::kShearY:
      return evenly(0, wide ? 0.99f : 0.3f, bins);
    case Op::kTranslateX:
      return evenly(0, largest_move(width), bins);
    case Op::kTranslateY:
      return evenly(0, largest_move(height), bins);
    case Op::kRotate:
      return evenly(0, wide ? 135.0f : 30.0f, bins);
    case Op::kBrightness:
    case Op::kColor:
    case Op::kContrast:
    case Op::kSharpness:
      return evenly(0, wide ? 0.99f : 0.9f, bins);
    case Op::kPosterize:
      return bits(wide ? 6 : 4, bins);
    case Op::kSolarize:
      return evenly(255, 0, bins);
    case Op::kIdentity:
    case Op::kSolarizeAdd:
    case Op::kAutoContrast:
    case Op::kEqualize:
    case Op::kInvert:
      break;
  }
  return {};
}

std::span<const PolicyPair> policy_pairs(config::AutoAugment::Policy policy) {
  switch (policy) {
    case config::AutoAugment::Policy::kImageNet:
      return kImageNet;
    case config::AutoAugment::Policy::kCifar10:
      return kCifar10;
    case config::AutoAugment::Policy::kSvhn:
      return kSvhn;
  }
  return {};
}

void apply_policy(const config::RandAugment& policy, Random& random, Pixels& image) {
  const int bins = static_cast<int>(policy.num_magnitude_bins);
  for (std::int64_t i = 0; i < policy.num_ops; ++i) {
    const Op op = kOps[random.below(std::size(kOps))];
    const bool negative = random.below(2) == 1;
    apply_op(op,
             choose_magnitude(op, Strength::kDefault, bins, static_cast<int>(policy.magnitude),
                              negative, image),
             image);
  }
}

void apply_policy(const config::TrivialAugment& policy, Random& random, Pixels& image) {
  const auto bins = static_cast<std::uint64_t>(policy.num_magnitude_bins);
  const Op op = kOps[random.below(std::size(kOps))];
  const int bin = static_cast<int>(random.below(bins));
  const bool negative = random.below(2) == 1;
  apply_op(op, choose_magnitude(op, Strength::kWide, static_cast<int>(bins), bin, negative, image),
           image);
}

void apply_policy(const config::AutoAugment& policy, Random& random, Pixels& image) {
  const std::span<const PolicyPair> pairs = policy_pairs(policy.policy);
  for (const PolicyStep& step : pairs[random.below(pairs.size())]) {
    const bool applies = random.uniform() <= step.probability;
    const bool negative = random.below(2) == 1;
    if (!applies) continue;
    const int bin = step.bin < 0 ? 0 : step.bin;
    apply_op(step.op,
             choose_magnitude(step.op, Strength::kDefault, kAutoAugmentBins, bin, negative, image),
             image);
  }
}

}  // namespace trainer::data
