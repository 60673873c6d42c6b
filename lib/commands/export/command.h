// The command `export`.
#pragma once

#include <string>

#include "commands/model_arguments/model_arguments.h"

namespace trainer::commands {

struct ExportArguments : ModelArguments {
  std::string format;  // keras_h5, safetensors, onnx; that of the ending of `output` when empty
  std::string output;
  bool overwrite = false;  // an output that exists
  bool json = false;
  bool quiet = false;
  bool uncalibrated = false;  // without the temperature of the run
};
int execute(const ExportArguments& arguments, const Context& context);

}  // namespace trainer::commands
