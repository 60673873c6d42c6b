// Training samples mixed with others: mixup and cutmix.
//
// What is drawn and what is computed is that of torchvision.transforms.v2.MixUp and CutMix, but for
// two things. Their partner of a sample is its neighbour in the batch, with one draw for the whole
// batch; here each sample draws a partner from the whole split, a share of its own and, of several
// entries, one of them (RandomChoice), all as functions of (seed, epoch, index): neither batch
// size, threads, replicas nor a resume change a sample. And they mix after normalisation, these on
// the data set's own bytes, rounded to the nearest (an affine normalisation and a mean commute).
// The partner comes with its own random changes of the same epoch; it costs a second read.
//
// Zhang et al., "mixup: Beyond Empirical Risk Minimization", 2018; Yun et al., "CutMix:
// Regularization Strategy to Train Strong Classifiers with Localizable Features", 2019.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/random.h"
#include "config/config.h"
#include "data/dataset.h"

namespace trainer::data {

// How one sample is mixed with another.
struct Mixture {
  std::int64_t partner = 0;  // another sample, when there is one
  double share = 1;          // of the sample itself in its label, and for mixup in its pixels
  bool cut = false;          // cutmix: the rectangle of the image that is the partner's
  std::int64_t top = 0, left = 0, height = 0, width = 0;
};

// `mixing` is not empty; `image` is [height, width, channels].
Mixture draw_mixture(const std::vector<config::Augmentation>& mixing, std::uint64_t seed,
                     std::int64_t epoch, std::int64_t index, std::int64_t size, const Shape& image);

// A number of Beta(alpha, alpha), alpha > 0.
double draw_beta(double alpha, Random& random);

// The data set with the mixing entries of `augment` applied; other entries are left to the data set
// itself. Labels are float rows of `label_width` numbers that sum to 1, one a class, or with a
// width of 1 the share of class 1; targets that are floats already are averaged as they are, and
// those of weigh_samples() by share times weight, so that the loss is the sum of both samples'.
// Without an epoch, or without such entries, images are not mixed.
std::unique_ptr<Dataset> mix_samples(std::unique_ptr<Dataset> dataset,
                                     const std::vector<config::Augmentation>& augment,
                                     std::int64_t label_width, std::uint64_t seed);

// The row of a class: 1 at its place, or with a width of 1 the share of class 1.
void write_label_row(std::int32_t label, std::span<float> row);

}  // namespace trainer::data
