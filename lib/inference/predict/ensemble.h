// The mean of the probabilities of several runs for the same images.
#pragma once

#include <functional>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "base/split.h"
#include "engine/metrics/metrics.h"
#include "inference/open_model/open_model.h"
#include "inference/predict/predict.h"
#include "results/field.h"

namespace trainer::inference {

// A run of an ensemble with the images as its own config reads them.
struct EnsembleMember {
  OpenedModel opened;
  std::vector<PredictionInput> inputs;
};

// Opens the images (see open_prediction_inputs()) for each run. Throws DataError if the runs do not
// have the same classes, the same loss and the same images, in which case their probabilities have
// no mean, or give an image several labels. The temperatures of the runs are not used.
std::vector<EnsembleMember> open_ensemble(std::vector<OpenedModel> runs,
                                          const std::vector<std::string>& files,
                                          std::optional<Split> split, bool skip);

// Calls `each` for the images of an input, in order, with the mean of the probabilities of all
// members and its logits. Keeps the logits of all members for all images in memory. An image that a
// member cannot read has an error and no prediction.
void predict_ensemble(const std::vector<EnsembleMember>& members, std::size_t input,
                      const results::PredictOptions& options,
                      const std::function<void(const results::Prediction&)>& each);

struct MemberScores {
  std::string run;
  std::int64_t step = 0;
  engine::Metrics alone;
  engine::Metrics without;  // metrics of the mean of all other runs
};
struct EnsembleScores {
  Split split = Split::kTest;
  std::vector<std::string> classes;
  engine::Metrics metrics;  // metrics of the mean of all runs
  std::vector<MemberScores> members;
};
// Evaluates the mean of at least two runs, each run alone, and the mean without it. The losses have
// no weights and no label smoothing. `split`: see open_split_or_default().
EnsembleScores evaluate_ensemble(std::vector<OpenedModel> runs, std::optional<Split> split,
                                 bool flip);

// Prints loss and accuracy of the mean, and unless `brief` a row per run with what it adds to the
// others.
void print_ensemble(const EnsembleScores& scores, bool brief, std::ostream& out);
void fields(results::FieldVisitor& v, EnsembleScores& scores);

}  // namespace trainer::inference
