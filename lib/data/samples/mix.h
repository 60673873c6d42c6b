// Mixes training samples with others: mixup and cutmix.
//
// The draws and computations are those of torchvision.transforms.v2.MixUp and CutMix with two
// differences:
// - There, the partner of a sample is its neighbour in the batch, with one draw for the whole
// batch.
//   Here, each sample draws a partner from the whole split, a share, and one entry of several
//   (RandomChoice), all as functions of (seed, epoch, index): batch size, threads, replicas and a
//   resume do not change a sample.
// - There, images are mixed after normalisation. Here, the bytes of the data set are mixed and
//   rounded to the nearest, as an affine normalisation and a mean commute.
// The partner has its own random changes of the same epoch; it costs a second read.
//
// Zhang et al., "mixup: Beyond Empirical Risk Minimization", 2018; Yun et al., "CutMix:
// Regularization Strategy to Train Strong Classifiers with Localizable Features", 2019.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/numbers/random.h"
#include "config/config.h"
#include "data/dataset.h"

namespace trainer::data {

// The mixture of one sample with another.
struct Mixture {
  std::int64_t partner = 0;  // another sample, unless the split has only one
  double share = 1;          // share of the sample itself in its label; for mixup in its pixels too
  bool mixes = true;         // false if all entries have ended before the epoch
  bool cut = false;          // cutmix: this rectangle is from the image of the partner
  std::int64_t top = 0, left = 0, height = 0, width = 0;
};

// Draws the mixture of sample `index` of `size` samples from the entries that have not ended before
// `epoch`. `image` is [height, width, channels].
Mixture draw_mixture(const std::vector<config::Augmentation>& mixing, std::uint64_t seed,
                     std::int64_t epoch, std::int64_t index, std::int64_t size, const Shape& image);

// Draws a number from Beta(alpha, alpha), alpha > 0.
double draw_beta(double alpha, Random& random);

// Returns the data set with the mixing entries of `augment` applied; the data set itself applies
// the other entries. Labels become float rows of `label_width` numbers that sum to 1, one per
// class, or with a width of 1 the share of class 1. Targets that are floats already are averaged,
// a target that is NaN in one of both stays NaN, and those of weigh_samples() are averaged by share
// times weight, so that the loss is the weighted sum of the losses of both samples. Without an
// epoch, or without such entries, images are not mixed. `repeats`: the epochs of Dataset::get() in
// an epoch of the config, after some of which an entry may end.
std::unique_ptr<Dataset> mix_samples(std::unique_ptr<Dataset> dataset,
                                     const std::vector<config::Augmentation>& augment,
                                     std::int64_t label_width, std::uint64_t seed,
                                     std::int64_t repeats = 1);

// Writes the row of a class: 1 at its place and 0 elsewhere, or with a width of 1 the share of
// class 1.
void write_label_row(std::int32_t label, std::span<float> row);

}  // namespace trainer::data
