// Applies the policies of random changes of torchvision.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "base/numbers/random.h"
#include "config/sections/augmentation.h"
#include "data/images/augment/pixel_ops.h"

namespace trainer::data {

// Returns the operations that RandAugment and TrivialAugmentWide choose from.
std::span<const PixelOp> policy_ops();
// Returns whether the sign of the magnitude is drawn.
bool is_signed(PixelOp op);
enum class Strength { kDefault /* RandAugment, AutoAugment */, kWide /* TrivialAugmentWide */ };
// Returns the magnitudes of an operation, weakest first; empty for an operation without magnitude.
std::vector<float> magnitudes(PixelOp op, Strength strength, int bins, int height, int width);

// A policy of AutoAugment is a list of pairs of operations; one pair is drawn for an image.
struct PolicyStep {
  PixelOp op;
  float probability;
  int bin;  // 0 to 9; -1 for an operation without magnitude
};
using PolicyPair = std::array<PolicyStep, 2>;
std::span<const PolicyPair> policy_pairs(config::AutoAugment::Policy policy);

// Each policy draws the same count of numbers for every image.
void apply_policy(const config::RandAugment& policy, Random& random, Pixels& image);
void apply_policy(const config::TrivialAugment& policy, Random& random, Pixels& image);
void apply_policy(const config::AutoAugment& policy, Random& random, Pixels& image);

}  // namespace trainer::data
