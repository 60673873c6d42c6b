#include "data/images/augment/timm_rand_augment.h"

#include <algorithm>
#include <array>

#include "data/images/augment/affine.h"

namespace trainer::data {
namespace {

constexpr double kFullMagnitude = 10;
constexpr double kMaxStd = 100;  // timm takes a larger mstd as uniform

}  // namespace

double find_argument(PixelOp op, const TimmStrength& strength) {
  const double level = strength.magnitude / kFullMagnitude;
  const double sign = strength.is_negative ? -1 : 1;
  switch (op) {
    case PixelOp::kRotate:
      return sign * (level * 30);
    case PixelOp::kPosterize: {
      const int bits = static_cast<int>(level * 4);
      return strength.is_increasing ? 4 - bits : bits;
    }
    case PixelOp::kSolarize: {
      const int threshold = std::min(256, static_cast<int>(level * 256));
      return strength.is_increasing ? 256 - threshold : threshold;
    }
    case PixelOp::kSolarizeAdd:
      return std::min(128, static_cast<int>(level * 110));
    case PixelOp::kColor:
    case PixelOp::kContrast:
    case PixelOp::kBrightness:
    case PixelOp::kSharpness:
      return strength.is_increasing ? std::max(0.1, 1 + sign * (level * 0.9)) : level * 1.8 + 0.1;
    case PixelOp::kShearX:
    case PixelOp::kShearY:
      return sign * (level * 0.3);
    case PixelOp::kTranslateX:
    case PixelOp::kTranslateY:
      return sign * (level * 0.45);
    default:
      return 0;
  }
}

double draw_magnitude(const config::TimmRandAugment& policy, Random& random) {
  const auto normal = static_cast<double>(random.normal());
  const auto uniform = static_cast<double>(random.uniform());
  const double drawn = policy.magnitude_std > kMaxStd
                           ? policy.magnitude * uniform
                           : policy.magnitude + policy.magnitude_std * normal;
  return std::clamp(drawn, 0.0, policy.max_magnitude);
}

void apply_timm_op(PixelOp op, double argument, config::Interpolation interpolation,
                   std::span<const std::uint8_t> fill, Pixels& image) {
  const auto move = [&](const AffineMatrix& matrix) {
    transform_filled(matrix, interpolation, fill, image);
  };
  switch (op) {
    case PixelOp::kRotate:
      return move(make_rotation(argument, image.height(), image.width()));
    case PixelOp::kShearX:
      return move({1, argument, 0, 0, 1, 0});
    case PixelOp::kShearY:
      return move({1, 0, 0, argument, 1, 0});
    case PixelOp::kTranslateX:
      return move({1, 0, argument * image.width(), 0, 1, 0});
    case PixelOp::kTranslateY:
      return move({1, 0, 0, 0, 1, argument * image.height()});
    case PixelOp::kPosterize:
      return apply_op(op, std::clamp(argument, 0.0, 8.0), image);
    case PixelOp::kColor:
    case PixelOp::kContrast:
    case PixelOp::kBrightness:
    case PixelOp::kSharpness:
      return apply_op(op, argument - 1, image);
    default:
      return apply_op(op, argument, image);
  }
}

void apply_policy(const config::TimmRandAugment& policy, const Denormalizer& denormalizer,
                  Random& random, Pixels& image) {
  std::array<std::uint8_t, 3> fill{};
  for (int c = 0; c < image.channels(); ++c) {
    fill[c] = denormalizer.find_pixel(c, 0);
  }
  for (std::int64_t i = 0; i < policy.num_ops; ++i) {
    const auto op = kTimmOps[random.below(kTimmOps.size())];
    const bool applies = random.uniform() < static_cast<float>(policy.probability);
    TimmStrength strength;
    strength.magnitude = draw_magnitude(policy, random);
    strength.is_increasing = policy.increasing;
    strength.is_negative = random.below(2) == 1;
    const auto interpolation =
        random.below(2) == 1 ? config::Interpolation::kBicubic : config::Interpolation::kBilinear;
    if (applies) apply_timm_op(op, find_argument(op, strength), interpolation, fill, image);
  }
}

}  // namespace trainer::data
