// Class probabilities of images.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/open_images.h"
#include "engine/engine.h"
#include "inference/open_model/run_archive.h"
#include "results/decisions/prediction.h"

namespace trainer::inference {

// Images to predict the classes of: an array file, image files, or a split of the run's data.
struct PredictionInput {
  std::string name;  // the array file or the split; of image files the first
  data::Images images;
  bool one_per_file = false;
  // Files of the split that cannot be read, and that are not among the images although the config
  // does not skip them.
  std::int64_t unreadable = 0;

  const data::Dataset& dataset() const { return *images.dataset; }
  // The name of a sample in the output.
  std::string name_of(std::int64_t index) const {
    return one_per_file ? dataset().describe(index) : name;
  }
};
// Returns the images of a split, with a warning per file that was left out.
PredictionInput make_prediction_input(const OpenedModel& opened, OpenedSplit split);
// Opens files and the files of folders, in this order, or, when there are none, the split of
// open_split_or_default(). Image files are decoded and resized like those of the run's evaluation
// splits, when they are due. With `skip` a damaged file gives a prediction with an error instead
// of a DataError. Throws DataError when arrays do not have the shape that the model was trained
// on.
std::vector<PredictionInput> open_prediction_inputs(const OpenedModel& opened,
                                                    const std::vector<std::string>& files,
                                                    std::optional<Split> split, bool skip);

// Returns the data section by which image files become what the model takes. `first` names an image
// in messages. Throws DataError for a model that was trained on other arrays than images.
config::Data data_of_image_files(const OpenedModel& opened, const std::string& first);

// The sample spec of the model for these inputs.
model::SampleSpec sample_spec(const OpenedModel& opened,
                              const std::vector<PredictionInput>& inputs);
// The trained model for these inputs, with its variables, on the devices of its config.
std::unique_ptr<engine::Engine> make_engine(const OpenedModel& opened,
                                            const std::vector<PredictionInput>& inputs);

// Computes the outputs of batches for for_each_output().
struct OutputSource {
  std::int64_t batch = 1;    // samples of a batch
  std::int64_t outputs = 1;  // numbers per sample
  // Returns the outputs of a batch, valid until the next call.
  std::function<std::span<const float>(const engine::HostBatch&)> compute;
};

// Calls `each` for the images, in order, and ends early when `enough`, which is called after every
// batch, returns true. The engine is of Use::kPredict. Of the options, the limit, the features and
// flip count, and with flip the loss.
void for_each_output(engine::Engine& engine, const PredictionInput& input,
                     const results::PredictOptions& options,
                     const std::function<void(const results::Output&)>& each,
                     const std::function<bool()>& enough = {});
// The same for outputs of another source than an engine; flip does not count.
void for_each_output(const OutputSource& source, const PredictionInput& input,
                     const results::PredictOptions& options,
                     const std::function<void(const results::Output&)>& each,
                     const std::function<bool()>& enough = {});
// for_each_output() with probabilities.
void predict(engine::Engine& engine, const PredictionInput& input,
             const results::PredictOptions& options,
             const std::function<void(const results::Prediction&)>& each,
             const std::function<bool()>& enough = {});

}  // namespace trainer::inference
