// Prints results as lines of JSON.
#pragma once

#include <iosfwd>

#include "results/field.h"

namespace trainer::results {

// Writes the JSON of a result as a line of its own and flushes the stream.
void print_json_line(Value& value, std::ostream& out);

template <class T>
void print_json(const T& result, std::ostream& out) {
  ValueOf<T> value(const_cast<T&>(result));  // writing changes nothing
  print_json_line(value, out);
}

}  // namespace trainer::results
