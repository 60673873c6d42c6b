#include "inference/decisions/novelty.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/formats/json.h"
#include "base/formats/table.h"
#include "base/text.h"
#include "checkpoint/safetensors.h"
#include "data/samples/splits.h"
#include "engine/metrics/binary_scores.h"
#include "inference/decisions/scored_split.h"
#include "inference/decisions/stored_result.h"
#include "inference/predict/features.h"
#include "results/evaluation/find_class.h"

namespace trainer::inference {
namespace {

constexpr const char* kNoveltyOption = "--novelty";
constexpr const char* kFeatureTensor = "features";  // [images, features]
constexpr const char* kLabelTensor = "labels";      // [images]
constexpr const char* kImageNames = "images";       // metadata: a list in JSON
constexpr std::size_t kShownNeighbours = 3;

// Limits of the references, so that a search takes at most 2 ms and the file has at most 32 MiB.
constexpr std::int64_t kMaxReferenceBytes = std::int64_t{16} << 20;
constexpr std::int64_t kMaxReferences = 20'000;

// The references as they are stored.
struct ReferenceFile {
  std::vector<float> features;
  std::size_t width = 1;
  std::vector<std::string> names;
  std::vector<std::int32_t> labels;

  std::vector<checkpoint::Tensor> tensors() const {
    const std::int64_t count = std::ssize(names);
    const auto columns = static_cast<std::int64_t>(width);
    return {{kFeatureTensor, Shape{count, columns}, features},
            {kLabelTensor, Shape{count}, {labels.begin(), labels.end()}, true}};
  }
  References references() const { return {NearestRows(features, width), names, labels}; }
};

// Calls `each` with the output for each image that can be read. Warns of the others. Throws
// DataError for an output that is not finite.
void score(FeatureEngine& scoring, const PredictionInput& input, const OpenedModel& opened,
           const std::function<void(const results::Output&)>& each) {
  results::PredictOptions options{opened.config.model.loss};
  options.features = scoring.shape.elements();
  for_each_output(*scoring.engine, input, options, [&](const results::Output& output) {
    if (!output.error.empty()) return opened.warn("skipped: " + output.error);
    const auto is_finite = [](float x) { return std::isfinite(x); };
    if (!std::ranges::all_of(output.logits, is_finite) ||
        !std::ranges::all_of(output.features, is_finite)) {
      throw DataError(printable(input.dataset().describe(output.index)),
                      "the model's output or features are not finite numbers, so that the image "
                      "has no distance; correct or remove it, or use another checkpoint");
    }
    each(output);
  });
}

// Returns the class of the sample; -1 if it does not have one.
std::int32_t find_label(const PredictionInput& input, const results::Output& output) {
  return input.dataset().spec().label_is_index() ? output.label.value_or(-1) : -1;
}

// Returns the logarithm of the odds of the largest probability.
double find_largest_odds(const OpenedModel& opened, std::span<const float> logits) {
  if (opened.is_multi_label()) return static_cast<double>(*std::ranges::max_element(logits));
  const engine::LogOdds odds(logits);
  double largest = odds(0);
  for (std::size_t i = 1; i < std::max<std::size_t>(logits.size(), 2); ++i) {
    largest = std::max(largest, odds(i));
  }
  return largest;
}

// Numbers the data groups of samples by their names.
class GroupNumbers {
 public:
  std::int64_t number(const std::string& name) {
    if (name.empty()) return next_++;  // a group of its own
    const auto [at, is_new] = numbers_.try_emplace(name, next_);
    if (is_new) ++next_;
    return at->second;
  }

 private:
  std::map<std::string, std::int64_t> numbers_;
  std::int64_t next_ = 0;
};

std::vector<results::ScoredImage> score_images(FeatureEngine& scoring, const PredictionInput& input,
                                               const OpenedModel& opened,
                                               const References& references) {
  std::vector<results::ScoredImage> images;
  GroupNumbers groups;
  const data::Dataset& dataset = input.dataset();
  score(scoring, input, opened, [&](const results::Output& output) {
    images.push_back({dataset.describe(output.index), find_label(input, output),
                      groups.number(dataset.group_at(output.index)),
                      references.rows.find(output.features).distance,
                      find_largest_odds(opened, output.logits)});
  });
  if (images.empty()) throw DataError(input.name, "has no image that can be read");
  return images;
}

// Opens images of other things, of which damaged ones are skipped.
std::vector<PredictionInput> open_unknown(const OpenedModel& opened, const std::string& folder,
                                          const PredictionInput& known) {
  std::vector<PredictionInput> inputs = open_prediction_inputs(opened, {folder}, {}, true);
  for (const PredictionInput& input : inputs) {
    const DType type = input.dataset().spec().image_type;
    if (type == known.dataset().spec().image_type) continue;
    throw DataError(input.name, "holds ", to_string(type), " images, but the model was trained on ",
                    to_string(known.dataset().spec().image_type),
                    "; give --unknown images of the same type");
  }
  return inputs;
}

// Reduces the training images to those that are stored, for features of this width.
void draw_references(PredictionInput& training, std::int64_t width) {
  const std::int64_t row_bytes = width * std::int64_t{sizeof(float)};
  const std::int64_t max_references =
      std::clamp<std::int64_t>(kMaxReferenceBytes / row_bytes, 1, kMaxReferences);
  if (training.dataset().size() <= max_references) return;
  auto chosen = choose_references(data::list_labels(training.dataset()), max_references);
  training.images.dataset =
      data::take_samples(std::move(training.images.dataset), std::move(chosen));
}

ReferenceFile make_references(FeatureEngine& scoring, const PredictionInput& training,
                              const OpenedModel& opened) {
  ReferenceFile file;
  file.width = static_cast<std::size_t>(scoring.shape.elements());
  score(scoring, training, opened, [&](const results::Output& output) {
    file.features.insert(file.features.end(), output.features.begin(), output.features.end());
    file.names.push_back(training.dataset().describe(output.index));
    file.labels.push_back(find_label(training, output));
  });
  return file;
}

// Returns the references of the file of a run. Throws DataError if they are not those of the
// report.
References read_references(const Path& path, const results::NoveltyReport& report,
                           const std::string& advice) {
  checkpoint::TensorFile file = checkpoint::read_checkpoint(path);
  const auto damaged = [&](const char* reason) {
    return DataError(path, "is damaged: ", reason, "; ", advice);
  };
  if (checkpoint::sha256_of(file.tensors) != report.references_sha256) {
    throw damaged("it does not belong to the novelty.json beside it");
  }
  ReferenceFile found;
  const auto names = results::parse_line(file.metadata[kImageNames]);
  for (const auto& name : names) {
    if (name.is_string()) found.names.push_back(name.get<std::string>());
  }
  for (checkpoint::Tensor& tensor : file.tensors) {
    if (tensor.name == kLabelTensor) {
      for (const float label : tensor.values) {
        found.labels.push_back(static_cast<std::int32_t>(label));
      }
    } else if (tensor.name == kFeatureTensor && tensor.shape.rank() == 2) {
      found.width = static_cast<std::size_t>(tensor.shape[1]);
      found.features = std::move(tensor.values);
    }
  }
  const std::size_t count = found.names.size();
  if (count == 0 || found.labels.size() != count || found.features.size() != count * found.width) {
    throw damaged("it does not have a name, a class and features for each image");
  }
  return found.references();
}

}  // namespace

std::vector<std::int64_t> choose_references(const std::vector<std::int32_t>& labels,
                                            std::int64_t most) {
  std::map<std::int32_t, std::vector<std::int64_t>> by_class;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    by_class[labels[i]].push_back(static_cast<std::int64_t>(i));
  }
  std::vector<std::vector<std::int64_t>> classes;
  for (auto& [label, samples] : by_class) classes.push_back(std::move(samples));
  // The smallest class first: what it leaves is for the others.
  std::ranges::stable_sort(classes, {}, [](const auto& samples) { return samples.size(); });
  std::vector<std::int64_t> chosen;
  for (std::size_t c = 0; c < classes.size(); ++c) {
    const std::int64_t count = std::ssize(classes[c]);
    const std::int64_t left = most - std::ssize(chosen);
    const std::int64_t class_count =
        std::min(count, left / (std::ssize(classes) - static_cast<std::int64_t>(c)));
    for (std::int64_t i = 0; i < class_count; ++i)
      chosen.push_back(classes[c][i * count / class_count]);
  }
  std::ranges::sort(chosen);
  return chosen;
}

results::Novelty StoredNovelty::judge(std::span<const float> features,
                                      const std::vector<std::string>& classes) const {
  const NearestRows::Found found = references.rows.find(features);
  results::Novelty novelty{found.distance > limit, found.distance, {}};
  for (const NearestRows::Row& row : found.nearest) {
    if (novelty.nearest.size() == kShownNeighbours) break;
    const std::int32_t label = references.labels[row.index];
    novelty.nearest.push_back(
        {references.names[row.index],
         label < 0 ? std::nullopt
                   : std::optional(results::class_name(classes, static_cast<std::size_t>(label))),
         row.distance});
  }
  return novelty;
}

std::optional<StoredNovelty> find_novelty(const OpenedModel& opened, bool flip) {
  const auto report = find_result<results::NoveltyReport>(opened, flip, results::kNoveltyFile,
                                                          kNoveltyOption, opened.warn);
  if (!report) return std::nullopt;
  repeat_contradiction(opened, results::kNoveltyFile, report->contradiction);
  const Path path = *find_run_folder(opened) / results::kReferencesFile;
  const std::string advice =
      find_source(opened, flip, results::kNoveltyFile, kNoveltyOption).advice;
  if (!std::filesystem::exists(path)) {
    throw DataError(path, "is missing, and ", results::kNoveltyFile, " needs it; ", advice);
  }
  opened.warn(Notice::note(concat(opened.path, ": images at a distance above ",
                                  significant(report->limit, 4),
                                  " from the training images show none of the classes, by ",
                                  results::kNoveltyFile, "; --no-novelty leaves that out")));
  return StoredNovelty{report->limit, read_references(path, *report, advice)};
}

void check_width(const OpenedModel& opened, const StoredNovelty& novelty, std::int64_t features) {
  const auto stored = static_cast<std::int64_t>(novelty.references.rows.width());
  if (stored == features) return;
  const results::JsonSource source =
      find_source(opened, false, results::kNoveltyFile, kNoveltyOption);
  throw DataError(source.file, "is of ", stored, " features, and the model has ", features, "; ",
                  source.advice);
}

void check_novelty(const OpenedModel& opened, Split split) {
  if (split == Split::kTrain) {
    throw ConfigError({},
                      "--novelty measures distances to the training images; evaluate the test or "
                      "validation split");
  }
  if (opened.classes.empty() || opened.config.model.loss == LossKind::kMeanSquaredError) {
    throw ConfigError({}, "--novelty needs a model of classes, and that of ",
                      printable(opened.path), " estimates numbers");
  }
}

results::NoveltyReport evaluate_novelty(const OpenedModel& opened, Split split,
                                        const NoveltyOptions& options, std::string& stored) {
  std::vector<PredictionInput> inputs;
  inputs.push_back(make_prediction_input(opened, open_split_or_default(opened, Split::kTrain)));
  inputs.push_back(make_prediction_input(opened, open_validation(opened, kNoveltyOption)));
  if (split != Split::kValidation) {
    inputs.push_back(make_prediction_input(opened, open_split_or_default(opened, split)));
  }
  PredictionInput &training = inputs[0], &validation = inputs[1], &evaluated = inputs.back();
  std::vector<PredictionInput> unknown;
  if (!options.unknown.empty()) unknown = open_unknown(opened, options.unknown, validation);
  FeatureEngine scoring = make_scoring_engine(opened, inputs);
  results::NoveltyReport report;
  report.allowed = options.false_alarms;
  report.layer = scoring.layer;
  report.split = split;
  report.training_images = training.dataset().size();
  draw_references(training, scoring.shape.elements());
  const ReferenceFile file = make_references(scoring, training, opened);
  const std::vector<checkpoint::Tensor> tensors = file.tensors();
  report.references = std::ssize(file.names);
  report.references_sha256 = checkpoint::sha256_of(tensors);
  const References references = file.references();
  const auto score = [&](const PredictionInput& input) {
    return score_images(scoring, input, opened, references);
  };
  const std::vector<results::ScoredImage> found = score(validation);
  const auto measured = split == Split::kValidation ? found : score(evaluated);
  std::vector<results::ScoredImage> others;
  for (const PredictionInput& input : unknown) {
    std::ranges::move(score(input), std::back_inserter(others));
  }
  if (!others.empty()) report.unknown.emplace().folder = options.unknown;
  results::measure_novelty(report, opened.classes, found, measured, others);
  if (const auto path = find_stored_path(opened, results::kReferencesFile)) {
    checkpoint::write_safetensors(*path, tensors, {{kImageNames, to_json_line(file.names)}});
  }
  stored = store_result(opened, false, results::kNoveltyFile, report);
  return report;
}

}  // namespace trainer::inference
