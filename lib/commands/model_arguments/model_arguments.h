// Models that a command opens by its arguments.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "commands/context/context.h"
#include "inference/open_model/open_model.h"

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
inference::OpenedModel open_model(const ModelArguments& arguments, const Context& context);
// Opens the model and the runs that `ensemble` lists with commas between.
std::vector<inference::OpenedModel> open_models(ModelArguments arguments,
                                                const std::string& ensemble,
                                                const Context& context);

}  // namespace trainer::commands
