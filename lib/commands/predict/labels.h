// Predictions of several labels per image.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "commands/predict/prediction_writer.h"

namespace trainer::commands {

// Writes the predicted labels of images.
class LabelWriter final : public LineWriter {
 public:
  // `thresholds`: by label, the logit above which it is predicted. `logits`: whether to write the
  // logits, too; `novelty`: whether to write that.
  LabelWriter(const std::string& format, const std::vector<std::string>& labels,
              std::vector<double> thresholds, const std::vector<inference::PredictionInput>& inputs,
              bool logits, bool novelty, std::ostream& out);
  // The input is one of the constructor's. `novelty` is set if the constructor was to write it.
  void write(const inference::PredictionInput& input, const results::Output& output,
             const std::optional<results::Novelty>& novelty);

 private:
  void write_csv_titles() override;
  void write_table_titles() override;
  void write_table(const inference::PredictionInput& input, const results::Output& output,
                   const std::optional<results::Novelty>& novelty);
  void write_csv(const inference::PredictionInput& input, const results::Output& output,
                 const std::optional<results::Novelty>& novelty);
  void write_json(const inference::PredictionInput& input, const results::Output& output,
                  const std::optional<results::Novelty>& novelty);
  // Returns the indices of the predicted labels, and those of the labels that a sample has.
  std::vector<std::size_t> predicted(const results::Output& output) const;
  std::vector<std::size_t> known(const inference::PredictionInput& input,
                                 const results::Output& output) const;
  std::string join_names(const std::vector<std::size_t>& indices) const;

  std::vector<std::string> labels_;
  std::vector<double> thresholds_;
  bool has_logits_, has_novelty_, has_known_ = false;  // the columns to write
};

}  // namespace trainer::commands
