#include "base/formats/json.h"

#include <nlohmann/json.hpp>

#include "base/formats/json_number.h"

namespace trainer {

std::string to_json_line(const nlohmann::ordered_json& value) {
  return value.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

void append_key(nlohmann::ordered_json& object, const std::string& key,
                const nlohmann::ordered_json& value) {
  object.get_ref<nlohmann::ordered_json::object_t&>().emplace_back(key, value);
}

bool is_shallow_json(std::string_view text) {
  int depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char letter = text[i];
    if (in_string) {
      if (letter == '\\') ++i;
      if (letter == '"') in_string = false;
    } else if (letter == '"') {
      in_string = true;
    } else if (letter == '[' || letter == '{') {
      if (++depth > kMaxJsonDepth) return false;
    } else if (letter == ']' || letter == '}') {
      --depth;
    }
  }
  return true;
}

}  // namespace trainer
