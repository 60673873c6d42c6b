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

// The temperature that belongs to the exported model.
struct ExportedTemperature {
  double value = 1;        // 1: the model is not calibrated
  bool is_applied = true;  // false if the user of the file has to divide the logits by it
};

// Returns the part of the output line about the temperature.
std::string describe_exported_temperature(const std::string& format,
                                          const ExportedTemperature& temperature) {
  if (temperature.value == 1) return "";
  const std::string value = fixed(temperature.value, 4);
  if (temperature.is_applied) return concat("; logits are divided by the temperature ", value);
  return concat("; not calibrated: divide the logits by the temperature ", value,
                format == "safetensors" ? ", which its metadata has" : "");
}

ExportEvent make_export_event(const inference::OpenedModel& opened, const std::string& format,
                              const std::string& output, const ExportedTemperature& temperature) {
  ExportEvent event{output, format, opened.path, opened.step, to_string(opened.checkpoint), {}, {}};
  if (temperature.value != 1) {
    event.temperature = temperature.value;
    event.temperature_applied = temperature.is_applied;
  }
  return event;
}

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

}  // namespace

int execute(const ExportArguments& arguments, const Context& context) {
  const std::string format =
      model::find_export_format(arguments.format, arguments.output, arguments.overwrite);
  inference::OpenedModel opened = open_model(arguments, context);
  ExportedTemperature temperature;
  if (!arguments.uncalibrated) temperature.value = inference::find_temperature(opened, false);
  const graph::Graph model = model::build_model(opened.config, inference::sample_spec(opened));
  if (format == "keras_h5") {
    const config::Model& config = opened.config.model;
    if (temperature.value != 1) {
      temperature.is_applied = model::divide_logits(model, temperature.value, opened.file.tensors);
    }
    model::export_keras_h5(model, config, opened.file.tensors, arguments.output, opened.classes);
    if (!arguments.quiet) context.warn(model::keras_note(model, config));
  } else if (format == "safetensors") {
    // Its parameters stay those of training, because training starts from such files too.
    temperature.is_applied = false;
    model::export_safetensors(model, opened.file.tensors, arguments.output, opened.classes,
                              temperature.value);
  } else {
    model::export_onnx(model, opened.file.tensors, make_onnx_metadata(opened, temperature.value),
                       arguments.output, temperature.value);
  }
  if (arguments.json) {
    results::print_json(make_export_event(opened, format, arguments.output, temperature),
                        context.out);
  } else if (!arguments.quiet) {
    const bool is_best = opened.checkpoint == results::CheckpointChoice::kBest;
    const std::string what =
        inference::is_config(arguments.model)
            ? "the untrained model"
            : concat("step ", opened.step, is_best ? " (the best checkpoint)" : "");
    context.out << arguments.output << ": " << what << " of " << arguments.model << ", as "
                << format << describe_exported_temperature(format, temperature) << '\n';
  }
  return kExitOk;
}

}  // namespace trainer::commands
