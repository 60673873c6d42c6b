// From a config to the things a run is made of.
#pragma once

#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "config/config.h"
#include "data/data.h"
#include "model/model.h"

namespace trainer::train {

// All splits, or `only` one; throws ConfigError when there is no training split, DataError when its
// labels are not what the loss takes. Training samples
// are mixed when the config says so: their labels are then shares of classes, the others' are not.
data::Datasets open_training_data(const config::Config& config,
                                  std::optional<std::string> only = {});

model::SampleSpec sample_spec(const data::Datasets& data);

// The default of data.normalize is for bytes. Float images are taken as they are where the config
// says nothing of them: writes that into `config` and returns a line that says so, with the range
// of up to 1000 images. "" and no change otherwise. Before the model is built.
std::string settle_normalize(config::Config& config, const data::Datasets& data);

// Throws ConfigError when no layer has weights that are trained, now or in a later stage.
void check_trainable(const config::Config& config, const graph::Graph& model);

// Throws ConfigError when the images of one batch would fill this machine's memory.
void check_batch(const config::Config& config, const model::SampleSpec& sample);

// What the config alone says of the samples: model.input, data.resize or the synthetic set. Bytes
// and class indices, unless something else is known; classes is 0 when they are not. None when the
// size of the images is not known without the data.
std::optional<model::SampleSpec> expected_sample(const config::Config& config);

// Builds the models of the config, of every stage of unfreeze, without its data: ConfigError with
// the mistakes that show without it, no more than the sizes that are known allow.
void check_model(const config::Config& config);

}  // namespace trainer::train
