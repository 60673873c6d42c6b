#include "base/formats/json.h"

#include <nlohmann/json.hpp>
#include <ostream>

namespace trainer {

std::string to_json_line(const nlohmann::ordered_json& value) {
  return value.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

void write_event(std::ostream& out, const nlohmann::ordered_json& event) {
  out << to_json_line(event) << std::endl;
}

}  // namespace trainer
