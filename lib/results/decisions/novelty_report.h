// `trainer evaluate --novelty`: the distance to the training images from which on an image shows
// none of the classes, found on the validation split and applied to the evaluated one.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/split.h"
#include "engine/metrics/roc_curve.h"
#include "results/document/document.h"
#include "results/field.h"

namespace trainer::results {

struct ScoredImage {
  std::string name;
  std::int32_t label = -1;  // the class, if one is known
  std::int64_t group = 0;   // images of the same number are of the same data group
  double distance = 0;      // the distance to the training images
  double log_odds = 0;      // those of the largest probability, without a temperature
};

// Images of which those above a limit are novel.
struct NovelCounts {
  std::int64_t samples = 0, novel = 0;
};
void fields(FieldVisitor& v, NovelCounts& counts);

// Images of a class by their distance, the farthest first.
struct FarImages {
  struct Image {
    std::string name;
    double distance = 0;
  };
  std::string label;  // the class
  std::vector<Image> images;
};

// Images of other things.
struct UnknownImages {
  std::string folder;
  NovelCounts counts;
  // The areas under the ROC curves by which the distance, and 1 minus the largest probability,
  // separate them from the evaluated images.
  engine::RocArea by_distance, by_probability;
  std::vector<double> distances;  // quantiles
};

struct NoveltyReport {
  double allowed = 0.05;  // the share of false alarms that is allowed
  double limit = 0;       // images of a larger distance are novel
  std::string layer;      // its output is the features
  // The training images that distances are measured to, and the hash of their features.
  std::int64_t references = 0, training_images = 0;
  std::string references_sha256;
  NovelCounts validation;         // by cross-fitting
  Split split = Split::kTest;     // the evaluated split
  std::string contradiction;      // see contradiction.h
  NovelCounts counts;             // the evaluated split; of validation those by cross-fitting
  std::vector<double> distances;  // their quantiles
  std::vector<FarImages> farthest;
  std::optional<UnknownImages> unknown;
};
void fields(FieldVisitor& v, NoveltyReport& report);

// Returns the smallest limit that a new image of the distribution of `distances` exceeds with at
// most the probability `allowed`, whatever the distribution is (split conformal prediction): the
// k-th smallest of n distances with k = ceil((n + 1) (1 - allowed)). Infinite if k is above n.
double find_novelty_limit(std::vector<double> distances, double allowed);
// Returns the least number of distances that give a finite limit.
std::int64_t min_novelty_samples(double allowed);

// Counts the images that are novel by the limits of the other nine tenths of the images. All images
// of a group are in one tenth. Tenths without enough other images for a limit are not counted.
NovelCounts cross_fit_novelty(std::span<const ScoredImage> images, double allowed);

// Sets what the report has about images: the limit, the false alarms of `validation` and, unless
// that is the split, of `evaluated`, and the detection of `unknown` images, if there are any.
// Throws DataError if there are too few validation images for the limit.
void measure_novelty(NoveltyReport& report, const std::vector<std::string>& classes,
                     std::span<const ScoredImage> validation,
                     std::span<const ScoredImage> evaluated, std::span<const ScoredImage> unknown);

// Returns the limit and the shares of novel images of both splits and of the other images, with
// their 95 % intervals. `ending` ends the first line: "; stored in ...".
Document show_novelty(const NoveltyReport& report, const std::string& ending);
// Returns a chart of the shares by limit, and a table of the farthest images of each class.
Document show_distances(const NoveltyReport& report);

}  // namespace trainer::results
