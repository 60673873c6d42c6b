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
          "keras_h5 (Keras 3's own layout when FILE ends in .weights.h5), safetensors, onnx, torch "
          "(a state dict of the library of the backbone) or timm (a folder that timm opens); "
          "that of FILE's ending when left out")
      .choices({"keras_h5", "safetensors", "onnx", "torch", "timm"});
  command.add_option("--output FILE", arguments->output, "File to write, or timm's folder")
      .required();
  command.add_flag("--overwrite", arguments->overwrite, "Replace a file that exists");
  command.add_flag("--uncalibrated", arguments->uncalibrated,
                   "Without the temperature that `evaluate --calibrate` has stored in the run");
  command
      .add_option("--onnx-input", arguments->onnx_input,
                  "float32 or uint8: the type of the pixels, 0 to 255, that an ONNX file takes; "
                  "float32 when left out")
      .choices({"float32", "uint8"});
  command
      .add_option("--onnx-output", arguments->onnx_output,
                  "logits or probabilities: what an ONNX file gives; logits when left out")
      .choices({"logits", "probabilities"});
  command.add_flag("--example", arguments->example,
                   "Write a Python program beside the ONNX file that predicts image files with it");
  add_overrides(command, arguments->overrides, Shorthands::kNone);
  command.add_flag("--json", arguments->json, "One JSON object on standard output");
  command.add_flag("--quiet", arguments->quiet, "Say nothing of what was written");
  command.run([arguments] { return commands::execute(*arguments, make_context()); });
}

}  // namespace trainer::app
