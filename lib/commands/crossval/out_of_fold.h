// The predictions that the run of each fold makes for the samples of its fold.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/files/files.h"
#include "base/notice.h"
#include "data/samples/loader.h"
#include "engine/metrics/binary_scores.h"
#include "engine/metrics/metrics.h"
#include "inference/open_model/open_model.h"
#include "inference/open_model/run_archive.h"
#include "results/crossval/crossval_result.h"

namespace trainer::commands {

struct FoldResult {
  std::int64_t fold = 0, step = 0;  // the step of the checkpoint
  engine::Metrics metrics;          // metrics of the samples of the fold
};

// Collects the predictions of all folds.
class OutOfFold {
 public:
  // Predicts a fold by its run.
  FoldResult add_fold(const Path& run, std::int64_t fold, results::CheckpointChoice checkpoint,
                      const inference::OpenOptions& opening);

  // The names of the classes or, of samples with several labels, of the labels.
  const std::vector<std::string>& classes() const { return classes_; }
  bool is_multi_label() const { return labels_.has_value(); }

  // Returns the scores by fold; none if the outputs are not the probabilities of classes, or too
  // many for the limit of an AUC.
  std::vector<engine::LabelledLogits> class_scores() const;
  // Returns the scores of each label over the samples for which it is known; none if the samples
  // have classes, or if there are too many scores.
  std::vector<engine::BinaryScores> label_scores() const;

  // Returns the metrics of all samples together.
  engine::Metrics metrics() const;

  // Returns a header and a row per sample. With classes, the columns are file, fold, label, class,
  // probability, and p_NAME for each class; with several labels file, fold, y_NAME (1, 0 or empty
  // for an unknown label) and p_NAME for each label.
  std::string csv() const;

 private:
  // Starts the sums with the first fold; the others have the same classes (open_split()).
  void begin(const inference::OpenedModel& opened, const inference::OpenedSplit& split,
             std::int64_t outputs);
  void add_batch(const data::Dataset& dataset, const data::Batch& batch,
                 std::span<const float> logits, std::int64_t fold, LossKind loss);
  void add_class_row(const std::string& file, std::int64_t fold, std::span<const float> logits,
                     std::int32_t label, LossKind loss);
  void add_label_row(const std::string& file, std::int64_t fold, std::span<const float> logits,
                     std::span<const float> targets);

  std::vector<std::string> classes_;
  bool has_classes_ = false;
  bool is_of_classes_ = false;  // the outputs are the probabilities of classes
  std::int64_t max_scores_ = 0;
  std::vector<engine::LabelledLogits> scores_;  // indexed by fold
  std::optional<engine::MetricsAccumulator> all_;
  std::optional<engine::MultiLabelAccumulator> labels_;  // set if samples have several labels
  double loss_sum_ = 0;
  std::string rows_;
};

}  // namespace trainer::commands
