// The tables of torchvision's policies of random changes.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "base/random.h"
#include "config/config.h"
#include "data/images/pixel_ops.h"

namespace trainer::data {

// The operations that RandAugment and TrivialAugmentWide choose from.
std::span<const PixelOp> policy_ops();
// Whether the magnitude's sign is drawn.
bool is_signed(PixelOp op);
// The magnitudes of an operation, weakest first; empty for those without.
enum class Strength { kUsual /* RandAugment, AutoAugment */, kWide /* TrivialAugmentWide */ };
std::vector<float> magnitudes(PixelOp op, Strength strength, int bins, int height, int width);

// A policy of AutoAugment is a list of pairs of operations, one of which is drawn for an image.
struct PolicyStep {
  PixelOp op;
  float probability;
  int bin;  // of ten; -1 where the operation has no magnitude
};
using PolicyPair = std::array<PolicyStep, 2>;
std::span<const PolicyPair> policy_pairs(config::AutoAugment::Policy policy);

// Each draws the same count of numbers for every image.
void apply_policy(const config::RandAugment& policy, Random& random, Pixels& image);
void apply_policy(const config::TrivialAugment& policy, Random& random, Pixels& image);
void apply_policy(const config::AutoAugment& policy, Random& random, Pixels& image);

}  // namespace trainer::data
