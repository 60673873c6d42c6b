#include "commands/export/export_json.h"

namespace trainer::commands {

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

}  // namespace trainer::commands
