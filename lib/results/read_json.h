// Reads results from JSON by the lists of their keys.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/files/files.h"
#include "results/field.h"

namespace trainer::results {

// The file that a result is read from, and how a user gets another one ("write it anew with ..."),
// which ends the messages; "" if there is no way.
struct JsonSource {
  std::string file;
  std::string advice;
};
// Throws DataError naming the file and the key for a missing key that every such file has, and for
// a value of another type or out of its range. Other keys are allowed.
void read_json(const nlohmann::ordered_json& json, const JsonSource& source, Value& value);
// Returns the object that a file holds, or nothing if there is no file. Throws DataError naming the
// file if it does not hold an object.
std::optional<nlohmann::ordered_json> read_json_file(const JsonSource& source);

template <class T>
T from_json(const nlohmann::ordered_json& json, const JsonSource& source) {
  T result;
  ValueOf<T> value(result);
  read_json(json, source, value);
  return result;
}

// Returns the JSON of a line; null for a line that is not JSON.
nlohmann::ordered_json parse_line(const std::string& line);
// Returns the result in a line of JSON; nothing if the line is not JSON or lacks a key.
template <class T>
std::optional<T> find_in_line(const std::string& line) {
  try {
    return from_json<T>(parse_line(line), {});
  } catch (const DataError&) {
    return std::nullopt;
  }
}

// Returns the result in a file, or nothing if there is no file.
template <class T>
std::optional<T> read_result(const JsonSource& source) {
  const auto json = read_json_file(source);
  return json ? std::optional(from_json<T>(*json, source)) : std::nullopt;
}

}  // namespace trainer::results
