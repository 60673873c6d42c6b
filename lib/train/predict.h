// Class probabilities of images.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "data/data.h"
#include "train/replicas.h"
#include "train/trained.h"

namespace trainer::train {

// Images to predict the classes of: a file, or a split of the run's data.
struct PredictionInput {
  std::string name;  // the file or the split
  std::unique_ptr<data::Dataset> dataset;
  bool labelled = false;
};
// The files, or the split when there are none. Throws DataError when images are not of the shape
// that the model was trained on.
std::vector<PredictionInput> open_prediction_inputs(
    const Trained& trained, const std::vector<std::string>& files, const std::string& split,
    const std::function<void(const std::string&)>& warn);

// What the model needs to know of the samples, to be built for these inputs.
model::SampleSpec sample_spec(const Trained& trained, const std::vector<PredictionInput>& inputs);

struct Prediction {
  std::int64_t index = 0;
  std::int32_t predicted = 0;
  std::vector<double> probabilities;  // in class order; a regression's outputs as they are
  std::optional<std::int32_t> label;  // when known
};

// Calls `each` for the first `limit` images, in order. The engine is of Use::kPredict.
void predict(Replicas& engine, const PredictionInput& input, config::LossKind loss,
             std::optional<std::int64_t> limit, const std::function<void(const Prediction&)>& each);

// Writes predictions as lines of a table, CSV or JSON.
class PredictionWriter {
 public:
  // `format`: table, csv or jsonl.
  PredictionWriter(const std::string& format, std::vector<std::string> classes,
                   const std::vector<PredictionInput>& inputs, std::ostream& out);
  void header();
  void write(const PredictionInput& input, const Prediction& prediction);

 private:
  std::string class_name(std::int64_t index) const;
  void write_table(const PredictionInput& input, const Prediction& prediction);
  void write_csv(const PredictionInput& input, const Prediction& prediction);
  void write_json(const PredictionInput& input, const Prediction& prediction);

  std::string format_;
  std::vector<std::string> classes_;
  bool files_ = false, labelled_ = false;  // whether to have these columns
  std::size_t name_width_ = 5, file_width_ = 4;
  std::ostream& out_;
};

}  // namespace trainer::train
