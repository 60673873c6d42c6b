#include "library/model.h"

#include <immintrin.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/error.h"
#include "base/numbers/statistics.h"
#include "base/process/process.h"
#include "base/text.h"
#include "base/threads/denormals.h"
#include "config/keys.h"
#include "inference/decisions/stored_decisions.h"
#include "inference/decisions/thresholds.h"
#include "inference/open_model/source.h"
#include "inference/predict/features.h"

namespace trainer::library {
namespace {

constexpr const char* kOption = "libtrainer";  // what has set a key, for messages

// Treats small numbers as the program does, on this thread and those that it starts.
class FlushedDenormals {
 public:
  FlushedDenormals() : previous_(_mm_getcsr()) { flush_denormals(); }
  ~FlushedDenormals() { _mm_setcsr(previous_); }
  FlushedDenormals(const FlushedDenormals&) = delete;
  FlushedDenormals& operator=(const FlushedDenormals&) = delete;

 private:
  unsigned previous_;
};

// The CPU alone, and one replica of the model however many trained it.
std::vector<config::Override> make_overrides(const Options& options) {
  std::vector<config::Override> overrides{
      {"parallel.device", "cpu", kOption},
      {config::keys::kGpus, "all", kOption},
      {config::keys::kReplicas, "1", kOption},
  };
  if (options.threads > 0) {
    overrides.push_back({config::keys::kThreads, std::to_string(options.threads), kOption});
  }
  return overrides;
}

results::CheckpointChoice parse_checkpoint(const std::string& text) {
  if (text.empty()) return results::CheckpointChoice::kDefault;
  if (text == "best") return results::CheckpointChoice::kBest;
  if (text == "last") return results::CheckpointChoice::kLast;
  throw ConfigError({}, "checkpoint '", printable(text), "': expected best or last");
}

inference::OpenedModel open(const std::string& path, const Options& options, Warn warn) {
  if (inference::is_config(path)) {
    throw ConfigError({}, printable(path),
                      " is a config; expected a run folder or a checkpoint of it");
  }
  return inference::open_trained_model(
      {path, parse_checkpoint(options.checkpoint), {}, ""},
      {make_overrides(options), environment_variables(), std::move(warn)});
}

// Returns a name for each probability: "class 1" for classes without names.
std::vector<std::string> name_outputs(const std::vector<std::string>& classes, std::size_t count) {
  std::vector<std::string> names = classes;
  while (names.size() < count) names.push_back(concat("class ", names.size()));
  names.resize(count);
  return names;
}

}  // namespace

Model::Model(const std::string& path, const Options& options)
    : opened_(open(path, options,
                   [this](const Notice& notice) {
                     if (notice.text.empty()) return;
                     notes_ += concat(spell(notice.kind), ": ", notice.text, '\n');
                   })),
      data_(inference::data_of_image_files(opened_, "an image")),
      process_(::getpid()) {
  options_.loss = opened_.config.model.loss;
  if (options.novelty) novelty_ = inference::find_novelty(opened_, false);
  if (has_labels()) {
    thresholds_ = inference::read_thresholds(opened_, false).logits;
  } else {
    if (options.calibrated) inference::use_temperature(opened_, options_);
    inference::use_operating_point(opened_, options_);
  }
  thread_.run([&] { make_engine(options.features); });
  opened_.file.tensors.clear();  // the engine has a copy
  batch_ = engine_->evaluation_batch();
  outputs_ = engine_->replica().outputs();
  const std::vector<float> zeros(static_cast<std::size_t>(outputs_ - options_.features));
  const std::size_t count =
      has_labels() ? zeros.size() : results::compute_probabilities(zeros, options_.loss).size();
  names_ = name_outputs(opened_.classes, count);
}

void Model::make_engine(bool features) {
  std::vector<inference::PredictionInput> inputs(1);
  inputs[0].images = data::open_given_images(data_, {});
  if (!features && !novelty_) {
    engine_ = inference::make_engine(opened_, inputs);
    return;
  }
  inference::FeatureEngine scoring = inference::make_scoring_engine(opened_, inputs);
  engine_ = std::move(scoring.engine);
  options_.features = scoring.shape.elements();
  if (novelty_) inference::check_width(opened_, *novelty_, options_.features);
  if (features) features_ = static_cast<std::size_t>(options_.features);
}

Model::~Model() {
  thread_.run([&] { engine_.reset(); });
}

double Model::novelty_limit() const {
  return novelty_ ? novelty_->limit : std::numeric_limits<double>::quiet_NaN();
}

bool Model::is_here() const { return process_ == ::getpid(); }

Predictions Model::predict(std::vector<data::GivenImage> images) const {
  const FlushedDenormals scope;
  const std::size_t count = images.size(), width = names_.size();
  Predictions all;
  all.errors.resize(count);
  all.probabilities.resize(count * width, std::numeric_limits<double>::quiet_NaN());
  all.classes.resize(count, -1);
  if (has_labels()) all.labels.resize(count * width);
  if (novelty_) all.distances.resize(count, std::numeric_limits<double>::quiet_NaN());
  if (novelty_) all.novel.resize(count);
  all.features.resize(count * features_, std::numeric_limits<float>::quiet_NaN());
  if (count == 0) return all;
  inference::PredictionInput input;
  input.images = data::open_given_images(data_, std::move(images));
  std::vector<float> logits;
  inference::OutputSource source{std::min<std::int64_t>(batch_, count), outputs_, {}};
  source.compute = [&](const engine::HostBatch& batch) {
    thread_.run([&] {
      engine_->evaluate(batch);
      logits.assign(engine_->logits().begin(), engine_->logits().end());
    });
    return std::span<const float>(logits);
  };
  inference::for_each_output(source, input, options_, [&](const results::Output& output) {
    const auto index = static_cast<std::size_t>(output.index);
    all.errors[index] = output.error;
    if (!output.error.empty()) return;
    double* const row = &all.probabilities[index * width];
    if (features_ > 0) std::ranges::copy(output.features, &all.features[index * features_]);
    if (novelty_) {
      const results::Novelty novelty = novelty_->judge(output.features, opened_.classes);
      all.distances[index] = novelty.distance;
      all.novel[index] = novelty.is_novel;
    }
    if (has_labels()) {
      for (std::size_t i = 0; i < width; ++i) {
        const auto logit = static_cast<double>(output.logits[i]);
        row[i] = sigmoid(logit);
        all.labels[index * width + i] = logit > thresholds_[i];
      }
      return;
    }
    const results::Prediction prediction = results::make_prediction(output, options_);
    std::ranges::copy(prediction.probabilities, row);
    all.classes[index] = prediction.predicted;
  });
  return all;
}

}  // namespace trainer::library
