// The section optimizer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/error.h"

namespace trainer::config {

class FieldVisitor;

struct Sgd {
  double learning_rate = 0.01;
  double momentum = 0;
  bool nesterov = false;
  double weight_decay = 0;
};
struct RmsProp {
  double learning_rate = 1e-3;
  double rho = 0.9;
  double momentum = 0;
  double epsilon = 1e-7;
  bool centered = false;
  double weight_decay = 0;
};
struct Adam {
  double learning_rate = 1e-3;
  double beta_1 = 0.9;
  double beta_2 = 0.999;
  double epsilon = 1e-7;
  bool amsgrad = false;
};
struct AdamW {
  double learning_rate = 1e-3;
  double weight_decay = 4e-3;
  double beta_1 = 0.9;
  double beta_2 = 0.999;
  double epsilon = 1e-7;
  bool amsgrad = false;
};
struct Nadam {
  double learning_rate = 1e-3;
  double beta_1 = 0.9;
  double beta_2 = 0.999;
  double epsilon = 1e-7;
  double weight_decay = 0;
};
struct Adagrad {
  double learning_rate = 1e-3;
  double initial_accumulator_value = 0.1;
  double epsilon = 1e-7;
  double weight_decay = 0;
};
struct Lion {
  double learning_rate = 1e-3;
  double beta_1 = 0.9;
  double beta_2 = 0.99;
  double weight_decay = 0;
};
struct Lamb {
  double learning_rate = 1e-3;
  double beta_1 = 0.9;
  double beta_2 = 0.999;
  double epsilon = 1e-7;
  double weight_decay = 0;
};
using OptimizerKind = std::variant<Sgd, RmsProp, Adam, AdamW, Nadam, Adagrad, Lion, Lamb>;

// Multiplies the learning rate of the layers whose name matches; the last match counts.
struct LearningRateMultiplier {
  std::string match;  // may have * and ?
  double value = 1;
  SourceLoc loc;
};

// Parameters without weight decay, by "layer/weight" with * and ?.
struct ParameterPattern {
  std::string text;
  SourceLoc loc;
};

// `optimizer: {adam: {learning_rate: 1e-3}}`, or `optimizer: adam`. At most one clip is given.
struct Optimizer {
  OptimizerKind kind = Adam{};
  std::optional<double> clip_value;        // each element to [-v, v] (Keras clipvalue)
  std::optional<double> clip_norm;         // each gradient tensor by its own norm (clipnorm)
  std::optional<double> global_clip_norm;  // all by the common norm (global_clipnorm)
  std::int64_t accumulate = 1;             // batches summed into one update
  std::vector<LearningRateMultiplier> learning_rate_multiplier;
  std::vector<ParameterPattern> exclude_from_weight_decay;
  std::optional<double> layer_decay;
  std::optional<double> ema;  // momentum of the weight average used by evaluation (Keras: 0.99)
  bool ema_warm_up = false;
  SourceLoc loc;
};

void fields(FieldVisitor& v, Optimizer& s);

}  // namespace trainer::config
