#include "commands/export/export_json.h"

#include <nlohmann/json.hpp>

#include "base/formats/json.h"

namespace trainer::commands {

void print_exported_json(const OpenedModel& opened, const std::string& format,
                         const std::string& output, std::ostream& out) {
  write_event(out, {{"event", "exported"},
                    {"output", output},
                    {"format", format},
                    {"run", opened.path},
                    {"step", opened.step}});
}

}  // namespace trainer::commands
