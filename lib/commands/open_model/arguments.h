// Models that a command opens by its arguments.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "commands/context/context.h"
#include "commands/open_model/open_model.h"

namespace trainer::commands {

// The arguments of all commands that open a model.
struct ModelArguments {
  std::string model;                    // a run folder, a checkpoint or a config
  std::string weights;                  // a weight file for a config
  bool best = false, last = false;      // the checkpoint of a run
  std::optional<std::int64_t> average;  // the number of last checkpoints to average
  std::vector<config::Override> overrides;
};

// Opens the model that they name. Throws as open_model() of a ModelSource does.
OpenedModel open_model(const ModelArguments& arguments, const Context& context);
// Opens the model and the runs that `ensemble` lists with commas between.
std::vector<OpenedModel> open_models(ModelArguments arguments, const std::string& ensemble,
                                     const Context& context);

}  // namespace trainer::commands
