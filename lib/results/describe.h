// Describes the keys of a result.
#pragma once

#include <string>
#include <vector>

#include "results/field.h"

namespace trainer::results {

struct KeyDescription;

// The values that a key may have.
struct Form {
  enum class Kind { kBoolean, kInteger, kNumber, kText, kList, kMap, kObject };
  Kind kind = Kind::kObject;
  bool may_be_null = false;
  std::vector<std::string> words;    // kText: the allowed texts, or empty for all
  std::vector<Form> items;           // kList, kMap: the form of all items
  std::vector<KeyDescription> keys;  // kObject
  std::vector<Form> alternatives;    // kObject: the further keys are those of one of them
};

struct KeyDescription {
  std::string key;
  Unit unit;
  std::string meaning;
  bool may_be_absent;
  Form form;
};

Form describe_value(Value& value, Unit unit);
// Returns the keys of an object: one list, or one for each of its alternatives.
std::vector<std::vector<KeyDescription>> list_alternatives(const Form& form);

// Returns the form of a result.
template <class T>
Form describe() {
  T result{};
  ValueOf<T> value(result);
  return describe_value(value, kNoUnit);
}

}  // namespace trainer::results
