// The command `export`.
#pragma once

#include <string>

#include "commands/model_arguments/model_arguments.h"

namespace trainer::commands {

struct ExportArguments : ModelArguments {
  std::string format;  // that of the ending of `output` when empty; see find_export_format()
  std::string output;
  bool overwrite = false;  // an output that exists
  bool json = false;
  bool quiet = false;
  bool uncalibrated = false;  // without the temperature of the run
  std::string onnx_input;     // float32, uint8; float32 when empty
  std::string onnx_output;    // logits, probabilities; logits when empty
  bool example = false;       // write a Python program beside an ONNX file
};
int execute(const ExportArguments& arguments, const Context& context);

}  // namespace trainer::commands
