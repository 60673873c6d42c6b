// The JSON event of `trainer export`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "inference/open_model/open_model.h"
#include "results/field.h"

namespace trainer::commands {

// The temperature that belongs to the exported model.
struct ExportedTemperature {
  double value = 1;        // 1: the model is not calibrated
  bool is_applied = true;  // false if the user of the file has to divide the logits by it
};

struct ExportEvent {
  std::string output, format, run;
  std::int64_t step = 0;
  std::string checkpoint;                   // "best", "last" or ""
  std::optional<double> temperature;        // set for a calibrated model
  std::optional<bool> temperature_applied;  // set for a calibrated model
};
void fields(results::FieldVisitor& v, ExportEvent& event);

ExportEvent make_export_event(const inference::OpenedModel& opened, const std::string& format,
                              const std::string& output, const ExportedTemperature& temperature);

}  // namespace trainer::commands
