// Opens data and builds models for a config.
#pragma once

#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "base/notice.h"
#include "config/config.h"
#include "data/data.h"
#include "model/model.h"

namespace trainer::train {

// Opens all splits, or `only` one. Training samples are mixed (mixup, cutmix) when the config says
// so; their labels are then shares of classes, those of other splits are not. Throws ConfigError
// when there is no training split, DataError when its labels do not fit the loss.
data::Datasets open_training_data(const config::Config& config, std::optional<Split> only = {});

model::SampleSpec sample_spec(const data::Datasets& data);

// The default of data.normalize is meant for bytes. When images are floats and the config gives no
// normalisation, sets `config` to none and returns a notice with the range of up to 1000
// images; otherwise an empty one. Call it before the model is built.
Notice settle_normalize(config::Config& config, const data::Datasets& data);

// Where train.batch_size is auto: writes the most samples that fit the memory of each replica's
// device into `config`, at most 1024 and the replica's share of `samples`, and returns a note that
// says how many, what they take and of what; otherwise an empty one and no change. The bound is
// train.memory_mb, else 90 % of what is free on the GPU, or half of it on the CPU. `model` as of
// model::build_model. Throws ConfigError when not one sample fits.
Notice settle_batch_size(config::Config& config, const graph::Graph& model, std::int64_t samples);

// Throws ConfigError when no layer has weights that are trained, now or in a later stage.
void check_trainable(const config::Config& config, const graph::Graph& model);

// Throws ConfigError when the images of one batch would fill this machine's memory.
void check_batch(const config::Config& config, const model::SampleSpec& sample);

// The samples as the config alone describes them: model.input, data.resize or the synthetic set.
// Assumes bytes and class indices; classes is 0 when their number is unknown. None when the size of
// the images cannot be known without the data.
std::optional<model::SampleSpec> expected_sample(const config::Config& config);

// Builds the models of all stages of the config without its data. Throws ConfigError with the
// mistakes that can be found with the sizes that are known.
void check_model(const config::Config& config);

}  // namespace trainer::train
