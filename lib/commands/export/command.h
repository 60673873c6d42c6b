// The command `export`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "commands/model_arguments/model_arguments.h"
#include "results/field.h"

namespace trainer::commands {

// What `export --json` prints.
struct ExportEvent {
  std::string output, format, run;
  std::int64_t step = 0;
  std::string checkpoint;                   // "best", "last" or ""
  std::optional<double> temperature;        // set for a calibrated model
  std::optional<bool> temperature_applied;  // set for a calibrated model
};
void fields(results::FieldVisitor& v, ExportEvent& event);

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
