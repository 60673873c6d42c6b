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
#include "train/hooks.h"

namespace trainer::train {

// All splits, or `only` one; throws ConfigError when there is no training split. Training samples
// are mixed when the config says so: their labels are then shares of classes, the others' are not.
data::Datasets open_training_data(const config::Config& config,
                                  std::optional<std::string> only = {});

model::SampleSpec sample_spec(const data::Datasets& data);

// Where a run's progress goes.
struct Output {
  bool is_tty = false;
  bool quiet = false;
  bool json = false;
};
std::vector<std::unique_ptr<Hook>> make_hooks(const config::Config& config, std::ostream& out,
                                              const Output& output);

}  // namespace trainer::train
