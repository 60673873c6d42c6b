#include "model/files/export.h"

#include <iostream>

#include "base/error.h"
#include "base/formats/table.h"
#include "options/commands.h"
#include "commands/evaluate/thresholds.h"
#include "commands/export/export_json.h"
#include "commands/open_model/calibration_file.h"
#include "commands/open_model/open_model.h"
#include "commands/open_model/operating_point_file.h"
#include "commands/open_model/run_archive.h"
#include "model/files/onnx.h"
#include "model/files/scale_logits.h"
#include "options/options.h"

namespace trainer::app {
namespace {

struct ExportArguments : ModelArguments {
  std::string format;  // keras_h5, safetensors, onnx
  std::string output;
  bool overwrite = false;  // an output that exists
  bool json = false;
  bool quiet = false;
  bool uncalibrated = false;  // without the temperature of the run
};

// Returns the part of the output line about the temperature.
std::string temperature_text(const std::string& format,
                             const commands::ExportedTemperature& temperature) {
  if (temperature.value == 1) return "";
  const std::string value = fixed(temperature.value, 4);
  if (temperature.is_applied) return concat("; logits are divided by the temperature ", value);
  return concat("; not calibrated: divide the logits by the temperature ", value,
                format == "safetensors" ? ", which its metadata has" : "");
}

int export_model(const ExportArguments& arguments) {
  model::check_export_path(arguments.format, arguments.output, arguments.overwrite);
  commands::OpenedModel opened = open_model(arguments);
  commands::ExportedTemperature temperature;
  if (!arguments.uncalibrated) temperature.value = commands::find_temperature(opened, false, warn);
  const graph::Graph model = model::build_model(opened.config.model, opened.config.data,
                                                commands::sample_spec(opened), opened.config.seed);
  if (arguments.format == "keras_h5") {
    const config::Model& config = opened.config.model;
    if (temperature.value != 1) {
      temperature.is_applied = model::divide_logits(model, temperature.value, opened.file.tensors);
    }
    model::export_keras_h5(model, config, opened.file.tensors, arguments.output, opened.classes);
    if (!arguments.quiet) warn(model::keras_note(model, config));
  } else if (arguments.format == "safetensors") {
    // Its parameters stay those of training, because training starts from such files too.
    temperature.is_applied = false;
    model::export_safetensors(model, opened.file.tensors, arguments.output, opened.classes,
                              temperature.value);
  } else {
    std::vector<std::pair<std::string, std::string>> metadata = commands::onnx_metadata(opened);
    if (opened.is_multi_label()) commands::add_thresholds(opened, metadata);
    commands::add_operating_point(opened, temperature.value, metadata);
    model::export_onnx(model, opened.file.tensors, metadata, arguments.output, temperature.value);
  }
  if (arguments.json) {
    commands::print_exported_json(opened, arguments.format, arguments.output, temperature,
                                  std::cout);
  } else if (!arguments.quiet) {
    const bool is_best = opened.checkpoint == commands::CheckpointChoice::kBest;
    const std::string what =
        commands::is_config(arguments.model)
            ? "the untrained model"
            : concat("step ", opened.step, is_best ? " (the best checkpoint)" : "");
    std::cout << arguments.output << ": " << what << " of " << arguments.model << ", as "
              << arguments.format << temperature_text(arguments.format, temperature) << '\n';
  }
  return kExitOk;
}

}  // namespace

void add_export(CommandLine& line) {
  const auto arguments = std::make_shared<ExportArguments>();
  const Command command = line.add_command("export", "A model for other programs");
  command.add_option("run", arguments->model, "Run folder, checkpoint or config file (YAML)")
      .required();
  add_model(command, *arguments);
  command
      .add_option(
          "--format", arguments->format,
          "keras_h5 (Keras 3's own layout when FILE ends in .weights.h5), safetensors or onnx")
      .choices({"keras_h5", "safetensors", "onnx"})
      .required();
  command.add_option("--output", arguments->output, "File to write").type_name("FILE").required();
  command.add_flag("--overwrite", arguments->overwrite, "Replace a file that exists");
  command.add_flag("--uncalibrated", arguments->uncalibrated,
                   "Without the temperature that `evaluate --calibrate` has stored in the run");
  add_overrides(command, arguments->overrides, Shorthands::kNone);
  command.add_flag("--json", arguments->json, "One JSON object on standard output");
  command.add_flag("--quiet", arguments->quiet, "Say nothing of what was written");
  command.run([arguments] { return export_model(*arguments); });
}

}  // namespace trainer::app
