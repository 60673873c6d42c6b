// Predictions as text.
#pragma once

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "inference/predict/predict.h"

namespace trainer::commands {

// Writes predictions as lines of a table, CSV or JSON.
class PredictionWriter {
 public:
  // `format`: table, csv or jsonl. With `top`, shows that many classes, the most probable first;
  // otherwise the predicted class and (except in a table) the probabilities of all. `logits`: how
  // many the model gives, to show them too; 0 shows none.
  PredictionWriter(const std::string& format, std::vector<std::string> classes,
                   const std::vector<inference::PredictionInput>& inputs,
                   std::optional<std::int64_t> top, std::ostream& out, std::int64_t logits = 0);
  // Call it before header(): shows for each sample whether the model abstained, and no class then.
  // `confidence`: that below which it does, for JSON; above 1 if it always does.
  void show_abstentions(double confidence);
  void header();
  // `heatmap`: the path of the prediction's heatmap, for JSON; "" for none.
  void write(const inference::PredictionInput& input, const results::Prediction& prediction,
             const std::string& heatmap = "");

 private:
  void write_table(const inference::PredictionInput& input, const results::Prediction& prediction);
  void write_csv(const inference::PredictionInput& input, const results::Prediction& prediction);
  void write_json(const inference::PredictionInput& input, const results::Prediction& prediction,
                  const std::string& heatmap);

  // The classes to show after the first, likeliest first; equal ones by their number.
  std::vector<std::size_t> runners_up(const results::Prediction& prediction) const;

  std::string format_;
  std::vector<std::string> classes_;
  std::int64_t top_ = 0;                   // 0: not given
  std::int64_t logits_ = 0;                // 0: not shown
  std::optional<double> abstains_below_;   // a confidence, if abstentions are shown
  bool files_ = false, labelled_ = false;  // true to write these columns
  std::size_t name_width_ = 5, file_width_ = 4;
  std::ostream& out_;
};

}  // namespace trainer::commands
