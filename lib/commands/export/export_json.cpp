#include "commands/export/export_json.h"

#include <nlohmann/json.hpp>

#include "base/formats/json.h"

namespace trainer::commands {

void print_exported_json(const inference::OpenedModel& opened, const std::string& format,
                         const std::string& output, const ExportedTemperature& temperature,
                         std::ostream& out) {
  nlohmann::ordered_json json{{"event", "exported"},
                              {"output", output},
                              {"format", format},
                              {"run", opened.path},
                              {"step", opened.step}};
  if (const std::string checkpoint = to_string(opened.checkpoint); !checkpoint.empty()) {
    json["checkpoint"] = checkpoint;
  }
  if (temperature.value != 1) {
    json["temperature"] = temperature.value;
    json["temperature_applied"] = temperature.is_applied;
  }
  write_event(out, json);
}

}  // namespace trainer::commands
