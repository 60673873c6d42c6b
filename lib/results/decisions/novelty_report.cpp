#include "results/decisions/novelty_report.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "base/error.h"
#include "base/formats/table.h"
#include "base/numbers/statistics.h"
#include "base/text.h"
#include "results/decisions/contradiction.h"
#include "results/decisions/operate.h"
#include "results/evaluation/find_class.h"

namespace trainer::results {
namespace {

constexpr std::size_t kQuantiles = 51;
constexpr std::size_t kFarthest = 5;  // images of a class

double find_rate(const NovelCounts& counts) { return share(counts.novel, counts.samples); }
engine::Interval find_rate_interval(const NovelCounts& counts) {
  return engine::wilson(counts.novel, counts.samples);
}

std::vector<double> list_distances(std::span<const ScoredImage> images) {
  std::vector<double> distances;
  for (const ScoredImage& image : images) distances.push_back(image.distance);
  return distances;
}

// Returns the smallest distance, the largest one, and those at even steps of rank between them.
std::vector<double> find_quantiles(std::span<const ScoredImage> images) {
  std::vector<double> sorted = list_distances(images), quantiles;
  std::ranges::sort(sorted);
  for (std::size_t i = 0; i < kQuantiles; ++i) {
    quantiles.push_back(sorted[i * (sorted.size() - 1) / (kQuantiles - 1)]);
  }
  return quantiles;
}

NovelCounts count_novel(std::span<const ScoredImage> images, double limit) {
  return {std::ssize(images), std::ranges::count_if(images, [&](const ScoredImage& image) {
            return image.distance > limit;
          })};
}

std::vector<FarImages> find_farthest(std::span<const ScoredImage> images,
                                     const std::vector<std::string>& classes) {
  std::map<std::int32_t, std::vector<const ScoredImage*>> by_class;
  for (const ScoredImage& image : images) by_class[image.label].push_back(&image);
  std::vector<FarImages> farthest;
  for (auto& [label, list] : by_class) {
    std::ranges::stable_sort(list, std::greater(), &ScoredImage::distance);
    list.resize(std::min(list.size(), kFarthest));
    FarImages& far = farthest.emplace_back();
    if (label >= 0) far.label = class_name(classes, static_cast<std::size_t>(label));
    for (const ScoredImage* image : list) far.images.push_back({image->name, image->distance});
  }
  return farthest;
}

// Returns the area by which `score` separates unknown images from known ones.
template <class Score>
engine::RocArea find_area(std::span<const ScoredImage> known, std::span<const ScoredImage> unknown,
                          const Score& score) {
  engine::BinaryScores scores;
  for (const std::span<const ScoredImage> images : {known, unknown}) {
    for (const ScoredImage& image : images) {
      scores.scores.push_back(score(image));
      scores.is_positive.push_back(images.data() == unknown.data());
    }
  }
  return engine::roc_area(scores);
}

std::string find_contradiction(Split split, double allowed, const NovelCounts& counts) {
  const engine::Interval interval = find_rate_interval(counts);
  if (split == Split::kValidation || interval.low <= allowed) return "";
  return concat("of the ", to_string(split), " images ",
                rate_text(find_rate(counts), interval, counts.novel, counts.samples),
                " are called none of the classes, more than the allowed ", percent(allowed),
                "; find the limit on validation images that are more like them");
}

std::string area_text(const engine::RocArea& area) {
  if (std::isnan(area.interval.low)) return fixed(area.area, 4);
  return concat(fixed(area.area, 4), " (", fixed(area.interval.low, 4), " to ",
                fixed(area.interval.high, 4), ")");
}

void add_counts(Table& table, const std::string& images, const NovelCounts& counts) {
  table.add({images, rate_text(find_rate(counts), find_rate_interval(counts), counts.novel,
                               counts.samples)});
}

// Returns the share of the images beyond each of their quantiles.
Series make_novelty_series(const std::string& name, const std::vector<double>& quantiles) {
  Series series{name, {}};
  const auto steps = static_cast<double>(std::max<std::size_t>(quantiles.size(), 2) - 1);
  for (std::size_t i = 0; i < quantiles.size(); ++i) {
    series.points.emplace_back(quantiles[i], 1 - static_cast<double>(i) / steps);
  }
  return series;
}

void area_fields(FieldVisitor& v, const std::string& name, engine::RocArea& area,
                 const char* meaning) {
  v(name.c_str(), area.area, kShare, meaning);
  v((name + "_low").c_str(), area.interval.low, kShare, "Lower end of its 95 % interval (DeLong).");
  v((name + "_high").c_str(), area.interval.high, kShare,
    "Upper end of its 95 % interval (DeLong).");
}

}  // namespace

void fields(FieldVisitor& v, NovelCounts& counts) {
  v("samples", counts.samples, kSamples, "Images.");
  v("novel", counts.novel, kSamples, "Those that are called none of the classes.");
  rate_fields(v, "rate", find_rate(counts), find_rate_interval(counts), counts.samples,
              "Their share; null without any.");
}

static void fields(FieldVisitor& v, FarImages::Image& image) {
  v("name", image.name, "The image.");
  v("distance", image.distance, kNoUnit, "Its distance.");
}

static void fields(FieldVisitor& v, FarImages& far) {
  v("class", far.label, "The class; empty for images without one.");
  v("images", far.images, "The images, the farthest first.");
}

static void fields(FieldVisitor& v, UnknownImages& unknown) {
  v("folder", unknown.folder, "The images of --unknown.");
  fields(v, unknown.counts);
  area_fields(v, "auc", unknown.by_distance,
              "Area under the ROC curve by which the distance separates them from the split.");
  area_fields(v, "probability_auc", unknown.by_probability,
              "The same by how small the largest probability is, without a temperature.");
  v("distances", unknown.distances, "Quantiles of their distances, from 0 to 100 %.");
}

void fields(FieldVisitor& v, NoveltyReport& report) {
  v("allowed_false_alarms", report.allowed, kShare, "The share of --novelty-false-alarms.");
  v("limit", report.limit, Unit("cosine distance", 0).never_null(),
    "Images of a larger distance show none of the classes.");
  v("layer", report.layer, "The layer whose output is the features.");
  v("references", report.references, kSamples, "Training images that distances are measured to.");
  v("training_images", report.training_images, kSamples, "Images of the training split.");
  v("references_sha256", report.references_sha256, "Hash of the features in novelty.safetensors.");
  v("validation", report.validation,
    "Validation images, each by the limit of the nine tenths that it is not in.");
  v("split", report.split, "The evaluated split.");
  v("contradiction", report.contradiction, kContradictionMeaning);
  v("counts", report.counts, "Its images: the novel ones are false alarms.");
  v("distances", report.distances, "Quantiles of their distances, from 0 to 100 %.");
  v("farthest", report.farthest, "Those farthest from the training images, by class.");
  v("unknown", report.unknown, "Images of other things: the novel ones are detected.");
}

double find_novelty_limit(std::vector<double> distances, double allowed) {
  const std::size_t needed = min_novelty_samples(allowed);
  if (distances.size() < needed) return std::numeric_limits<double>::infinity();
  // A share such as 0.05 is not exact in binary.
  const double rank = std::ceil(static_cast<double>(distances.size() + 1) * (1 - allowed) - 1e-9);
  const auto at = distances.begin() + static_cast<std::ptrdiff_t>(std::max(rank, 1.0)) - 1;
  std::ranges::nth_element(distances, at);
  return *at;
}

std::int64_t min_novelty_samples(double allowed) {
  return static_cast<std::int64_t>(std::ceil(1 / allowed - 1e-9)) - 1;
}

NovelCounts cross_fit_novelty(std::span<const ScoredImage> images, double allowed) {
  constexpr std::int64_t kParts = 10;
  NovelCounts all;
  for (std::int64_t part = 0; part < kParts; ++part) {
    std::vector<ScoredImage> own;
    std::vector<double> others;
    for (const ScoredImage& image : images) {
      if (image.group % kParts == part) {
        own.push_back(image);
      } else {
        others.push_back(image.distance);
      }
    }
    if (std::ssize(others) < min_novelty_samples(allowed)) continue;
    const NovelCounts counts = count_novel(own, find_novelty_limit(std::move(others), allowed));
    all.samples += counts.samples;
    all.novel += counts.novel;
  }
  return all;
}

void measure_novelty(NoveltyReport& report, const std::vector<std::string>& classes,
                     std::span<const ScoredImage> validation,
                     std::span<const ScoredImage> evaluated, std::span<const ScoredImage> unknown) {
  const std::int64_t needed = min_novelty_samples(report.allowed);
  if (std::ssize(validation) < needed) {
    throw DataError(to_string(Split::kValidation), "has ", validation.size(),
                    " images, and --novelty-false-alarms ", report.allowed, " needs at least ",
                    needed, "; allow more false alarms, or give more validation images");
  }
  report.limit = find_novelty_limit(list_distances(validation), report.allowed);
  report.validation = cross_fit_novelty(validation, report.allowed);
  const bool is_validation = report.split == Split::kValidation;
  report.counts = is_validation ? report.validation : count_novel(evaluated, report.limit);
  report.contradiction = find_contradiction(report.split, report.allowed, report.counts);
  report.distances = find_quantiles(evaluated);
  report.farthest = find_farthest(evaluated, classes);
  if (!report.unknown) return;
  report.unknown->counts = count_novel(unknown, report.limit);
  report.unknown->by_distance =
      find_area(evaluated, unknown, [](const ScoredImage& image) { return image.distance; });
  report.unknown->by_probability =
      find_area(evaluated, unknown, [](const ScoredImage& image) { return -image.log_odds; });
  report.unknown->distances = find_quantiles(unknown);
}

Document show_novelty(const NoveltyReport& report, const std::string& ending) {
  Document document;
  document.add(Paragraph{concat(
      "novelty: none of the classes above a distance of ", significant(report.limit, 4), " to ",
      report.references < report.training_images ? concat(grouped(report.references), " of ") : "",
      grouped(report.training_images), " training images, for false alarms of ",
      percent(report.allowed), ending)});
  Table table({"images", "none of the classes (95 % interval)"}, NumbersFrom{1}, "Novelty");
  add_counts(table, to_string(Split::kValidation), report.validation);
  if (report.split != Split::kValidation) {
    add_counts(table, to_string(report.split), report.counts);
  }
  if (report.unknown) add_counts(table, printable(report.unknown->folder), report.unknown->counts);
  document.add(std::move(table));
  if (!report.unknown) return document;
  Table areas({"score", "AUC (95 % interval, DeLong)"}, NumbersFrom{1}, "Separation");
  areas.add({"distance", area_text(report.unknown->by_distance)});
  areas.add({"largest probability", area_text(report.unknown->by_probability)});
  document.add(std::move(areas));
  return document;
}

Document show_distances(const NoveltyReport& report) {
  Document document;
  Chart chart{"novelty",
              "Distances to the training images",
              "limit (cosine distance)",
              "share of images above it",
              {make_novelty_series(to_string(report.split), report.distances)},
              true};
  if (report.unknown) {
    chart.series.push_back(make_novelty_series(report.unknown->folder, report.unknown->distances));
  }
  chart.mark = Chart::Mark{report.limit, "limit"};
  document.add(Charts{std::move(chart)});
  Table table({"class", "farthest from the training images", "distance"}, NumbersFrom{2},
              concat("Farthest images (", to_string(report.split), ")"));
  for (const FarImages& far : report.farthest) {
    for (const FarImages::Image& image : far.images) {
      table.add({printable(far.label), printable(image.name), significant(image.distance, 4)});
    }
  }
  document.add(std::move(table));
  return document;
}

}  // namespace trainer::results
