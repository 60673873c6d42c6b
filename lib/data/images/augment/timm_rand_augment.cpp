#include "data/images/augment/timm_rand_augment.h"

#include <algorithm>
#include <array>

#include "data/images/augment/affine.h"
#include "data/images/augment/pixel_ops.h"

namespace trainer::data {
namespace {

constexpr double kFullMagnitude = 10;
constexpr double kMaxStd = 100;  // timm takes a larger mstd as uniform

void solarize_add(int amount, Pixels& image) {
  std::for_each_n(image.data(), image.size(), [=](std::uint8_t& value) {
    if (value < 128) value = static_cast<std::uint8_t>(std::min(value + amount, 255));
  });
}

}  // namespace

double find_argument(TimmOp op, const TimmStrength& strength) {
  const double level = strength.magnitude / kFullMagnitude;
  const double sign = strength.is_negative ? -1 : 1;
  switch (op) {
    case TimmOp::kAutoContrast:
    case TimmOp::kEqualize:
    case TimmOp::kInvert:
      return 0;
    case TimmOp::kRotate:
      return sign * (level * 30);
    case TimmOp::kPosterize: {
      const int bits = static_cast<int>(level * 4);
      return strength.is_increasing ? 4 - bits : bits;
    }
    case TimmOp::kSolarize: {
      const int threshold = std::min(256, static_cast<int>(level * 256));
      return strength.is_increasing ? 256 - threshold : threshold;
    }
    case TimmOp::kSolarizeAdd:
      return std::min(128, static_cast<int>(level * 110));
    case TimmOp::kColor:
    case TimmOp::kContrast:
    case TimmOp::kBrightness:
    case TimmOp::kSharpness:
      return strength.is_increasing ? std::max(0.1, 1 + sign * (level * 0.9)) : level * 1.8 + 0.1;
    case TimmOp::kShearX:
    case TimmOp::kShearY:
      return sign * (level * 0.3);
    case TimmOp::kTranslateX:
    case TimmOp::kTranslateY:
      return sign * (level * 0.45);
  }
  return 0;
}

double draw_magnitude(const config::TimmRandAugment& policy, Random& random) {
  const auto normal = static_cast<double>(random.normal());
  const auto uniform = static_cast<double>(random.uniform());
  const double drawn = policy.magnitude_std > kMaxStd
                           ? policy.magnitude * uniform
                           : policy.magnitude + policy.magnitude_std * normal;
  return std::clamp(drawn, 0.0, policy.max_magnitude);
}

void apply_op(TimmOp op, double argument, config::Interpolation interpolation,
              std::span<const std::uint8_t> fill, Pixels& image) {
  const auto move = [&](const AffineMatrix& matrix) {
    transform_filled(matrix, interpolation, fill, image);
  };
  switch (op) {
    case TimmOp::kAutoContrast:
      return apply_op(PixelOp::kAutoContrast, 0, image);
    case TimmOp::kEqualize:
      return apply_op(PixelOp::kEqualize, 0, image);
    case TimmOp::kInvert:
      return apply_op(PixelOp::kInvert, 0, image);
    case TimmOp::kRotate:
      return move(make_rotation(argument, image.height(), image.width()));
    case TimmOp::kPosterize:
      return apply_op(PixelOp::kPosterize, std::clamp(argument, 0.0, 8.0), image);
    case TimmOp::kSolarize:
      return apply_op(PixelOp::kSolarize, argument, image);
    case TimmOp::kSolarizeAdd:
      return solarize_add(static_cast<int>(argument), image);
    case TimmOp::kColor:
      return apply_op(PixelOp::kColor, argument - 1, image);
    case TimmOp::kContrast:
      return apply_op(PixelOp::kContrast, argument - 1, image);
    case TimmOp::kBrightness:
      return apply_op(PixelOp::kBrightness, argument - 1, image);
    case TimmOp::kSharpness:
      return apply_op(PixelOp::kSharpness, argument - 1, image);
    case TimmOp::kShearX:
      return move({1, argument, 0, 0, 1, 0});
    case TimmOp::kShearY:
      return move({1, 0, 0, argument, 1, 0});
    case TimmOp::kTranslateX:
      return move({1, 0, argument * image.width(), 0, 1, 0});
    case TimmOp::kTranslateY:
      return move({1, 0, 0, 0, 1, argument * image.height()});
  }
}

void apply_policy(const config::TimmRandAugment& policy, const Denormalizer& denormalizer,
                  Random& random, Pixels& image) {
  std::array<std::uint8_t, 3> fill{};
  for (int c = 0; c < image.channels(); ++c) {
    fill[c] = denormalizer.find_pixel(c, 0);
  }
  for (std::int64_t i = 0; i < policy.num_ops; ++i) {
    const auto op = static_cast<TimmOp>(random.below(kTimmOps));
    const bool applies = random.uniform() < static_cast<float>(policy.probability);
    TimmStrength strength;
    strength.magnitude = draw_magnitude(policy, random);
    strength.is_increasing = policy.increasing;
    strength.is_negative = random.below(2) == 1;
    const auto interpolation =
        random.below(2) == 1 ? config::Interpolation::kBicubic : config::Interpolation::kBilinear;
    if (applies) apply_op(op, find_argument(op, strength), interpolation, fill, image);
  }
}

}  // namespace trainer::data
