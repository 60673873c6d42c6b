// Finds the confidence below which a model abstains.
#pragma once

#include <functional>
#include <string>

#include "inference/predict/predict.h"
#include "results/decisions/abstain.h"

namespace trainer::inference {

// Predicts the validation split of the model's data, and finds the confidence. The confidence is
// the probability of the predicted class. Throws ConfigError for a model whose outputs are not the
// probabilities of classes that exclude each other, and without a validation split.
results::Abstention find_abstention(const OpenedModel& opened, engine::Engine& engine,
                                    const results::PredictOptions& options, double error,
                                    const std::function<void(const std::string&)>& warn);

}  // namespace trainer::inference
