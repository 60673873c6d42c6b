// Predictions of several labels per image.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "commands/predict/predict.h"

namespace trainer::commands {

// Writes the predicted labels of images as lines of a table, CSV or JSON.
class LabelWriter {
 public:
  // `format`: table, csv or jsonl. `thresholds`: by label, the logit above which it is predicted.
  // `logits`: whether to write the logits, too.
  LabelWriter(const std::string& format, const std::vector<std::string>& labels,
              std::vector<double> thresholds, const std::vector<PredictionInput>& inputs,
              bool logits, std::ostream& out);
  void header();
  // The input is one of the constructor's.
  void write(const PredictionInput& input, const Output& output);

 private:
  void write_table(const PredictionInput& input, const Output& output);
  void write_csv(const PredictionInput& input, const Output& output);
  void write_json(const PredictionInput& input, const Output& output);
  // Returns the indices of the predicted labels, and those of the labels that a sample has.
  std::vector<std::size_t> predicted(const Output& output) const;
  std::vector<std::size_t> known(const PredictionInput& input, const Output& output) const;
  std::string join_names(const std::vector<std::size_t>& indices) const;

  std::string format_;
  std::vector<std::string> labels_;
  std::vector<double> thresholds_;
  bool has_logits_, has_files_ = false, has_known_ = false;  // the columns to write
  std::size_t file_width_ = 4;
  std::ostream& out_;
};

}  // namespace trainer::commands
