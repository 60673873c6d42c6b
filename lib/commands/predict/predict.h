// Class probabilities of images.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "commands/open_model/run_archive.h"
#include "data/open_images.h"
#include "engine/metrics/operating_point.h"
#include "engine/replicas.h"

namespace trainer::commands {

// Images to predict the classes of: an array file, image files, or a split of the run's data.
struct PredictionInput {
  std::string name;  // the array file or the split; of image files the first
  data::Images images;
  bool one_per_file = false;
  // Files of the split that cannot be read, and that are not among the images although the config
  // does not skip them.
  std::int64_t unreadable = 0;

  const data::Dataset& dataset() const { return *images.dataset; }
  // The name of a sample in the output.
  std::string name_of(std::int64_t index) const {
    return one_per_file ? dataset().describe(index) : name;
  }
};
// Opens files and the files of folders, in this order, or, when there are none, the split of
// open_split_or_default(). Image files are decoded and resized like those of the run's evaluation
// splits, when they are due. With `skip` a damaged file gives a prediction with an error instead
// of a DataError. Throws DataError when arrays do not have the shape that the model was trained
// on.
std::vector<PredictionInput> open_prediction_inputs(
    const OpenedModel& opened, const std::vector<std::string>& files, std::optional<Split> split,
    bool skip, const std::function<void(const std::string&)>& warn);

// The sample spec of the model for these inputs.
model::SampleSpec sample_spec(const OpenedModel& opened,
                              const std::vector<PredictionInput>& inputs);
// The trained model for these inputs, with its variables, on the devices of its config.
std::unique_ptr<engine::Replicas> make_engine(const OpenedModel& opened,
                                              const std::vector<PredictionInput>& inputs);

// Returns the probabilities of all classes, of which a single output stands for two; the outputs of
// mean_squared_error as they are.
std::vector<double> compute_probabilities(std::span<const float> logits, LossKind loss);

// The output of the model for an image.
struct Output {
  std::int64_t index = 0;
  // The model's outputs before softmax or sigmoid, without a temperature; valid during the call.
  // With flip, the logits of the mean.
  std::span<const float> logits;
  std::optional<std::int32_t> label;  // set if it is known
  std::string error;                  // the reason for no output: nothing but index is set then
};

struct Prediction : Output {
  std::int32_t predicted = 0;
  std::vector<float> scaled_logits = {};   // the logits divided by the temperature
  std::vector<double> probabilities = {};  // one per class; a regression's outputs as they are
  bool abstained = false;                  // its probability is too small to predict the class
};

// Predicts the positive one of two classes if its log-odds reach this value, instead of the
// likelier class. The odds are those without a temperature.
struct DecisionThreshold {
  std::int64_t positive_class = 1;
  double log_odds = 0;
};

struct PredictOptions {
  LossKind loss = LossKind::kSoftmaxCrossEntropy;
  std::optional<std::int64_t> limit = {};  // the first images
  bool flip = false;       // the mean of the probabilities of an image and its mirror image
  double temperature = 1;  // the logits are divided by it
  std::optional<DecisionThreshold> threshold = {};  // used with two classes
  // Predicts the class of the least expected cost in place of the likeliest one.
  std::optional<engine::CostMatrix> costs = {};
};
// Returns the class, and the probabilities of the logits divided by the temperature of the options.
// `output` has no error.
Prediction make_prediction(const Output& output, const PredictOptions& options);
// Calls `each` for the images, in order, and ends early when `enough`, which is called after every
// batch, returns true. The engine is of Use::kPredict. Of the options, the limit and flip count,
// and with flip the loss.
void for_each_output(engine::Replicas& engine, const PredictionInput& input,
                     const PredictOptions& options, const std::function<void(const Output&)>& each,
                     const std::function<bool()>& enough = {});
// for_each_output() with probabilities.
void predict(engine::Replicas& engine, const PredictionInput& input, const PredictOptions& options,
             const std::function<void(const Prediction&)>& each,
             const std::function<bool()>& enough = {});

}  // namespace trainer::commands
