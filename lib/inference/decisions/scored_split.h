// The logits of evaluated splits, for results that need them all at once.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "engine/evaluate.h"
#include "engine/metrics/labelled_logits.h"
#include "inference/open_model/open_model.h"
#include "inference/open_model/run_archive.h"

namespace trainer::inference {

// Throws ConfigError naming `option` for a model whose outputs are not the probabilities of classes
// that exclude each other: that of a regression or with several labels per image, and for samples
// without classes.
void check_class_probabilities(const OpenedModel& opened, const engine::Engine& engine,
                               const data::Dataset& dataset, const std::string& option);

// Returns the function for EvaluateOptions::each_batch that appends the samples of each batch to
// `scores`, which must outlive it, as must the data set.
std::function<void(const data::Batch&, std::span<const float>)> keep_scores(
    const data::Dataset& dataset, std::int64_t outputs, engine::LabelledLogits& scores);

// Throws DataError if a logit is not a finite number, or without samples. `outputs`: logits per
// sample.
void check_scores(std::span<const float> logits, std::int64_t outputs, Split split);
void check_scores(const engine::LabelledLogits& scores, Split split);

// Opens the validation split of the model's data. Throws ConfigError naming `option`, with advice,
// if there is none.
OpenedSplit open_validation(const OpenedModel& opened, const std::string& option);
// Evaluates the validation split.
engine::LabelledLogits score_validation(const OpenedModel& opened, engine::Engine& engine,
                                        engine::EvaluateOptions options,
                                        const OpenedSplit& validation);

}  // namespace trainer::inference
