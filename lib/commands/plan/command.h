// The command `plan`.
#pragma once

#include <optional>
#include <string>

#include "commands/load_config/load_config.h"
#include "commands/plan/simulate.h"

namespace trainer::commands {

struct PlanArguments : ConfigArguments {
  std::string print_after;        // a compiler pass, or "all"
  bool all = false;               // the config's defaults too
  bool layers = false;            // each layer of a backbone
  bool program = false;           // also what the backend runs, step by step
  std::string plot;               // write the learning-rate curve to this SVG file
  bool overwrite = false;         // a plot that exists
  std::optional<int> world_size;  // plan for so many processes; else the environment has it
  SimulationRequest simulation;
  std::string device;   // a GPU model to plan for
  std::string machine;  // a file with the shape of a machine to plan for
};
int execute(const PlanArguments& arguments, const Context& context);

}  // namespace trainer::commands
