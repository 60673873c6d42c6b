// Reads the members of JSON objects that another program may have changed, with errors that name
// the key.
#pragma once

#include <concepts>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/error.h"

namespace trainer {

// Returns the value of a key. Throws std::range_error naming the key if `object` is not an object
// that has it.
template <class Json>
const Json& member(const Json& object, const std::string& key) {
  if (!object.is_object()) {
    throw std::range_error(
        concat("expected an object with the key ", key, ", found: ", object.type_name()));
  }
  const auto found = object.find(key);
  if (found == object.end()) throw std::range_error(concat("lacks the key ", key));
  return *found;
}

// Returns the value of a key: a double, a std::string or a std::vector<std::string>. Throws
// std::range_error naming the key if the object lacks it or has a value of another type.
template <class Value, class Json>
Value read_member(const Json& object, const std::string& key) {
  const Json& value = member(object, key);
  const auto fail = [&](const char* expected, const Json& found) {
    throw std::range_error(
        concat("the value of ", key, " is not ", expected, ", but: ", found.type_name()));
  };
  if constexpr (std::same_as<Value, double>) {
    if (!value.is_number()) fail("a number", value);
  } else if constexpr (std::same_as<Value, std::string>) {
    if (!value.is_string()) fail("a text", value);
  } else {
    static_assert(std::same_as<Value, std::vector<std::string>>);
    if (!value.is_array()) fail("a list of texts", value);
    for (const Json& item : value) {
      if (!item.is_string()) fail("a list of texts", item);
    }
  }
  return value.template get<Value>();
}

// Returns the message of an exception without the "[json.exception.type_error.302] " before that of
// the library.
inline std::string describe_json_error(const std::exception& error) {
  const std::string text = error.what();
  const std::size_t end = text.find("] ");
  return text.starts_with("[json.exception") && end != std::string::npos ? text.substr(end + 2)
                                                                         : text;
}

}  // namespace trainer
