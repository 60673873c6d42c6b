// Prints results as lines of JSON.
#pragma once

#include <ostream>
#include <string>

#include "results/field.h"

namespace trainer::results {

// Returns the JSON of a result as a line, with its end.
std::string write_line(Value& value);
template <class T>
std::string to_line(const T& result) {
  ValueOf<T> value(const_cast<T&>(result));  // writing changes nothing
  return write_line(value);
}

// Prints the line, and flushes the stream.
template <class T>
void print_json(const T& result, std::ostream& out) {
  out << to_line(result) << std::flush;
}

}  // namespace trainer::results
