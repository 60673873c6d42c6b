// Predictions as lines of text.
#pragma once

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "inference/predict/predict.h"

namespace trainer::commands {

// Stands in a table for the class of an image that shows none of the classes.
inline constexpr const char* kNoneOfTheClasses = "(none of the classes)";
// The titles of the columns of write_csv_novelty().
inline constexpr const char* kNoveltyTitles = ",novel,distance";

// Writes a line for each image of a table, CSV or JSON: the file, if the images have several, the
// index, and what a derived class makes of the output.
class LineWriter {
 public:
  virtual ~LineWriter() = default;
  LineWriter(const LineWriter&) = delete;
  LineWriter& operator=(const LineWriter&) = delete;
  // Call it before the first line.
  void header();

 protected:
  // `format`: table, csv or jsonl. `inputs` have the images of all lines.
  LineWriter(const std::string& format, const std::vector<inference::PredictionInput>& inputs,
             std::ostream& out);
  // Begins a line of a table or of CSV.
  void begin_line(const inference::PredictionInput& input, std::int64_t index);
  void write_csv_novelty(const results::Novelty& novelty);
  // Returns the file of an image for JSON.
  std::optional<std::string> find_file(const inference::PredictionInput& input,
                                       std::int64_t index) const;

  const std::string format_;
  std::ostream& out_;

 private:
  // Writes the titles of the columns behind the index.
  virtual void write_csv_titles() = 0;
  virtual void write_table_titles() = 0;
  void begin_line(const std::string& file, const std::string& index);

  bool has_files_;
  std::size_t file_width_ = 4;
};

// Writes predictions of one class per image.
class PredictionWriter final : public LineWriter {
 public:
  // With `top`, shows that many classes, the most probable first;
  // otherwise the predicted class and (except in a table) the probabilities of all. `logits`: how
  // many the model gives, to show them too; 0 shows none.
  PredictionWriter(const std::string& format, std::vector<std::string> classes,
                   const std::vector<inference::PredictionInput>& inputs,
                   std::optional<std::int64_t> top, std::ostream& out, std::int64_t logits = 0);
  // Call it before header(): shows for each sample whether the model abstained, and no class then.
  // `confidence`: that below which it does, for JSON; above 1 if it always does.
  void show_abstentions(double confidence);
  // Call it before header() if predictions have their novelty.
  void show_novelty();
  // `heatmap`: the path of the prediction's heatmap, for JSON; "" for none.
  void write(const inference::PredictionInput& input, const results::Prediction& prediction,
             const std::string& heatmap = "");

 private:
  void write_csv_titles() override;
  void write_table_titles() override;
  void write_table(const inference::PredictionInput& input, const results::Prediction& prediction);
  void write_csv(const inference::PredictionInput& input, const results::Prediction& prediction);
  void write_json(const inference::PredictionInput& input, const results::Prediction& prediction,
                  const std::string& heatmap);

  // Returns the class that a table shows, or what stands for it.
  std::string name_class(const results::Prediction& prediction) const;
  // The classes to show after the first, likeliest first; equal ones by their number.
  std::vector<std::size_t> runners_up(const results::Prediction& prediction) const;

  std::vector<std::string> classes_;
  std::int64_t top_ = 0;                  // 0: not given
  std::int64_t logits_ = 0;               // 0: not shown
  std::optional<double> abstains_below_;  // a confidence, if abstentions are shown
  bool shows_novelty_ = false;
  bool labelled_ = false;  // true to write this column
  std::size_t name_width_ = 5;
};

}  // namespace trainer::commands
