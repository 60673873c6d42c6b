// Writes results as JSON by the lists of their keys.
#pragma once

#include <nlohmann/json.hpp>
#include <ostream>
#include <string>

#include "results/field.h"

namespace trainer::results {

// Returns the value as JSON. Changes nothing.
nlohmann::ordered_json write_json(Value& value);
template <class T>
nlohmann::ordered_json to_json(const T& result) {
  ValueOf<T> value(const_cast<T&>(result));  // the list of fields serves reading, too
  return write_json(value);
}

// Returns the JSON of a result as a line, with its end.
std::string write_line(Value& value);
template <class T>
std::string to_line(const T& result) {
  ValueOf<T> value(const_cast<T&>(result));
  return write_line(value);
}

// Prints the line, and flushes the stream.
template <class T>
void print_json(const T& result, std::ostream& out) {
  out << to_line(result) << std::flush;
}

}  // namespace trainer::results
