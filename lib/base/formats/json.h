// Writes JSON for programs that read it line by line.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace trainer {

// Returns the value as one line without a line break. Bytes that are not UTF-8 become U+FFFD and
// numbers that are not finite become null, because JSON has neither.
std::string to_json_line(const nlohmann::ordered_json& value);

// Appends a key that the object does not have. operator[] would compare it with all other keys.
void append_key(nlohmann::ordered_json& object, const std::string& key,
                const nlohmann::ordered_json& value);

}  // namespace trainer
