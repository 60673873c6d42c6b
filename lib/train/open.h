// Opens data and builds models for a config.
#pragma once

#include <optional>

#include "backend/backend.h"
#include "base/notice.h"
#include "base/process/progress.h"
#include "config/config.h"
#include "data/open.h"
#include "model/build_model.h"

namespace trainer::train {

// Opens all splits, or `only` one. If the config asks for mixup or cutmix, training samples are
// mixed and their labels are shares of classes; the labels of other splits are not. Throws
// ConfigError if there is no training split, and DataError if its labels do not fit the loss.
// `progress` advances with the files that are decoded.
data::Datasets open_training_data(const config::Config& config, std::optional<Split> only = {},
                                  const Progress& progress = {});

model::SampleSpec sample_spec(const data::Datasets& data);

// Resolves what the data decides. data.range: `auto` becomes the range that was found. run.best:
// returns the notice of resolve_best(). data.normalize, whose default is meant for bytes: if images
// are floats and the config gives no normalisation, sets `config` to none and returns a notice with
// the range of up to 1000 images; otherwise returns an empty notice. Call it before the model is
// built.
Notice resolve_normalize(config::Config& config, const data::Datasets& data);

// Throws ConfigError if no layer has weights that are trained, now or in a later stage.
void check_trainable(const config::Config& config, const graph::Graph& model);

// Throws ConfigError if the images of one batch do not fit this machine's memory.
void check_batch(const config::Config& config, const model::SampleSpec& sample);

// Returns the samples as the config alone describes them: model.input, data.resize or the synthetic
// set. Assumes bytes and class indices; `classes` is 0 if their number is unknown. Returns nothing
// if the size of the images follows from the data only.
std::optional<model::SampleSpec> expected_sample(const config::Config& config);

// What check_model() could check without the data.
enum class ModelCheck {
  kWhole,
  kNoClasses,  // all but the number of outputs, because the number of classes is unknown
  kNoShape,    // the last layer alone, because the shape of images or labels is unknown
};
// Builds the models of all stages of the config without its data. Throws ConfigError with the
// errors that can be found without the sizes of the data, and DataError for a weight file that
// training would reject.
ModelCheck check_model(const config::Config& config);
// Returns whether the shapes of tensors in the file of weights follow from the number of classes.
bool has_weights_of_classes(const config::Model& model);

}  // namespace trainer::train
