// The JSON event of `trainer export`.
#pragma once

#include <ostream>
#include <string>

#include "inference/open_model/open_model.h"

namespace trainer::commands {

// The temperature that belongs to the exported model.
struct ExportedTemperature {
  double value = 1;        // 1: the model is not calibrated
  bool is_applied = true;  // false if the user of the file has to divide the logits by it
};

// Prints {"event":"exported","output":...,"format":...,"run":...,"step":...}, and of a calibrated
// model "temperature" and "temperature_applied".
void print_exported_json(const inference::OpenedModel& opened, const std::string& format,
                         const std::string& output, const ExportedTemperature& temperature,
                         std::ostream& out);

}  // namespace trainer::commands
