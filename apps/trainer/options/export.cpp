#include "commands/export/command.h"
#include "options/options.h"

namespace trainer::app {

void add_export(CommandLine& line) {
  const auto arguments = std::make_shared<commands::ExportArguments>();
  const Command command = line.add_command("export", "A model for other programs");
  command.add_option("run", arguments->model, "Run folder, checkpoint or config file (YAML)")
      .required();
  add_model(command, *arguments);
  command
      .add_option(
          "--format", arguments->format,
          "keras_h5 (Keras 3's own layout when FILE ends in .weights.h5), safetensors or onnx; "
          "that of FILE's ending when left out")
      .choices({"keras_h5", "safetensors", "onnx"});
  command.add_option("--output FILE", arguments->output, "File to write").required();
  command.add_flag("--overwrite", arguments->overwrite, "Replace a file that exists");
  command.add_flag("--uncalibrated", arguments->uncalibrated,
                   "Without the temperature that `evaluate --calibrate` has stored in the run");
  add_overrides(command, arguments->overrides, Shorthands::kNone);
  command.add_flag("--json", arguments->json, "One JSON object on standard output");
  command.add_flag("--quiet", arguments->quiet, "Say nothing of what was written");
  command.run([arguments] { return commands::execute(*arguments, make_context()); });
}

}  // namespace trainer::app
