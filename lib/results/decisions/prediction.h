// Probabilities and predicted classes from the outputs of a model.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/choices.h"
#include "engine/metrics/operating_point.h"

namespace trainer::results {

class FieldVisitor;
struct PredictionRates;

// Returns the probabilities of all classes, of which a single output stands for two; the outputs of
// mean_squared_error as they are.
std::vector<double> compute_probabilities(std::span<const float> logits, LossKind loss);

// The output of the model for an image.
struct Output {
  std::int64_t index = 0;
  // The model's outputs before softmax or sigmoid, without a temperature; valid during the call.
  // With flip, the logits of the mean.
  std::span<const float> logits;
  std::span<const float> features;    // see PredictOptions::features; valid during the call
  std::optional<std::int32_t> label;  // set if it is known
  std::string error;                  // the reason for no output: nothing but index is set then
};

// A novel image shows none of the classes.
struct Novelty {
  bool is_novel = false;
  double distance = 0;  // the distance to the training images
  struct Neighbour {
    std::string name;
    std::optional<std::string> label;  // set for images of one class
    double distance = 0;
  };
  std::vector<Neighbour> nearest;  // the nearest training images
};
void fields(FieldVisitor& v, Novelty::Neighbour& neighbour);

struct Prediction : Output {
  std::int32_t predicted = 0;
  std::vector<float> scaled_logits = {};   // the logits divided by the temperature
  std::vector<double> probabilities = {};  // one per class; a regression's outputs as they are
  bool abstained = false;                  // its probability is too small to predict the class
  std::optional<Novelty> novelty = {};     // set if the run has a limit of novelty

  bool is_novel() const { return novelty && novelty->is_novel; }
  bool has_class() const { return !abstained && !is_novel(); }
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
  PredictionRates* rates = nullptr;  // the times of the predictions are added to it
  // The model gives so many features behind the logits, as that of make_scoring_engine() does. Flip
  // does not apply then.
  std::int64_t features = 0;
};
// Returns the class, and the probabilities of the logits divided by the temperature of the options.
// `output` has no error.
Prediction make_prediction(const Output& output, const PredictOptions& options);

// A line of `predict --json`, which `compare` reads.
struct PredictionLine {
  struct Candidate {
    std::string name;
    double probability = 0;
  };
  std::optional<std::string> file;
  std::int64_t index = 0;
  std::optional<std::string> predicted;  // nothing if the model abstains
  double probability = 0;
  std::optional<bool> abstained;         // set with --abstain
  std::optional<double> abstains_below;  // infinite if the model always abstains
  std::optional<Novelty> novelty;
  std::optional<std::string> label;
  std::vector<Candidate> top;
  std::optional<std::vector<std::pair<std::string, double>>> probabilities;  // the classes in order
  std::optional<std::vector<double>> logits;
  std::string heatmap;
};
void fields(FieldVisitor& v, PredictionLine& line);
// A line of a model of several labels.
struct LabelLine {
  std::optional<std::string> file;
  std::int64_t index = 0;
  std::vector<std::string> labels;
  std::vector<std::pair<std::string, double>> probabilities;
  std::optional<Novelty> novelty;
  std::optional<std::vector<std::string>> present, absent;
  std::optional<std::vector<double>> logits;
};
void fields(FieldVisitor& v, LabelLine& line);
// Lists the keys of a line about novelty, which are left out without it.
void novelty_fields(FieldVisitor& v, const std::optional<Novelty>& novelty);

}  // namespace trainer::results
