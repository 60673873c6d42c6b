// The command `export`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "commands/model_arguments/model_arguments.h"
#include "results/field.h"

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

// What `export --json` prints.
struct ExportEvent {
  std::string output, format, run;
  std::int64_t step = 0;
  std::string checkpoint;                   // "best", "last" or ""
  std::optional<double> temperature;        // set for a calibrated model
  std::optional<bool> temperature_applied;  // set for a calibrated model
  std::string description, example;         // files beside an ONNX file
};
void fields(results::FieldVisitor& v, ExportEvent& event);

}  // namespace trainer::commands
