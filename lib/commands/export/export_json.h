// The JSON event of `trainer export`.
#pragma once

#include <ostream>
#include <string>

#include "commands/open_model/open_model.h"

namespace trainer::commands {

// Prints {"event":"exported","output":...,"format":...,"run":...,"step":...}.
void print_exported_json(const OpenedModel& opened, const std::string& format,
                         const std::string& output, std::ostream& out);

}  // namespace trainer::commands
