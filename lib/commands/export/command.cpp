#include "commands/export/command.h"

#include "base/error.h"
#include "base/formats/table.h"
#include "commands/export/onnx_metadata.h"
#include "inference/decisions/stored_decisions.h"
#include "inference/open_model/run_archive.h"
#include "model/files/export.h"
#include "model/files/onnx.h"
#include "model/files/scale_logits.h"
#include "results/write_json.h"

namespace trainer::commands {
namespace {

// What `export --json` prints.
struct ExportEvent {
  std::string output, format, run;
  std::int64_t step = 0;
  std::string checkpoint;                   // "best", "last" or ""
  std::optional<double> temperature;        // set for a calibrated model
  std::optional<bool> temperature_applied;  // set for a calibrated model
};

void fields(results::FieldVisitor& v, ExportEvent& event) {
  v.event("exported");
  v("output", event.output, "The exported file.");
  v("format", event.format, "Its format.");
  v("run", event.run, "The run, checkpoint or config that was exported.");
  v("step", event.step, results::kSteps, "The step of the checkpoint.");
  v.when_present("checkpoint", event.checkpoint, "Which checkpoint of the run: best or last.");
  v.when_present("temperature", event.temperature, "The temperature of a calibrated model.");
  v.when_present("temperature_applied", event.temperature_applied,
                 "Whether the file divides the logits by it.");
}

// Writes the file of `event`, and returns whether its logits are divided by the temperature.
bool write_model(const ExportEvent& event, inference::OpenedModel& opened,
                 const ExportArguments& arguments, const Context& context) {
  const double temperature = event.temperature.value_or(1);
  const graph::Graph model = model::build_model(opened.config, inference::sample_spec(opened));
  std::vector<checkpoint::Tensor>& tensors = opened.file.tensors;
  if (event.format == "keras_h5") {
    const config::Model& config = opened.config.model;
    const bool is_applied = temperature == 1 || model::divide_logits(model, temperature, tensors);
    model::export_keras_h5(model, config, tensors, event.output, opened.classes);
    if (!arguments.quiet) context.warn(model::keras_note(model, config));
    return is_applied;
  }
  if (event.format == "safetensors") {
    // Its parameters stay those of training, because training starts from such files too.
    model::export_safetensors(model, tensors, event.output, opened.classes, temperature);
    return false;
  }
  model::export_onnx(model, tensors, make_onnx_metadata(opened, temperature), event.output,
                     temperature);
  return true;
}

// Returns the part of the output line about the temperature.
std::string describe_temperature(const ExportEvent& event) {
  if (!event.temperature) return "";
  const std::string value = fixed(*event.temperature, 4);
  if (*event.temperature_applied) return concat("; logits are divided by the temperature ", value);
  return concat("; not calibrated: divide the logits by the temperature ", value,
                event.format == "safetensors" ? ", which its metadata has" : "");
}

std::string describe_source(const ExportEvent& event, bool is_config) {
  if (is_config) return "the untrained model";
  return concat("step ", event.step, event.checkpoint == "best" ? " (the best checkpoint)" : "");
}

}  // namespace

int execute(const ExportArguments& arguments, const Context& context) {
  const std::string format =
      model::find_export_format(arguments.format, arguments.output, arguments.overwrite);
  inference::OpenedModel opened = open_model(arguments, context);
  ExportEvent event{
      arguments.output, format, opened.path, opened.step, to_string(opened.checkpoint), {}, {}};
  const double temperature =
      arguments.uncalibrated ? 1 : inference::find_temperature(opened, false);
  if (temperature != 1) event.temperature = temperature;
  const bool is_applied = write_model(event, opened, arguments, context);
  if (event.temperature) event.temperature_applied = is_applied;
  if (arguments.json) {
    results::print_json(event, context.out);
  } else if (!arguments.quiet) {
    context.out << event.output << ": "
                << describe_source(event, inference::is_config(arguments.model)) << " of "
                << arguments.model << ", as " << format << describe_temperature(event) << '\n';
  }
  return kExitOk;
}

}  // namespace trainer::commands
