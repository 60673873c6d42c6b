// The JSON event of `trainer validate`.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "commands/validate/unchecked.h"
#include "results/field.h"

namespace trainer::commands {

struct ValidationError {
  std::string file;                 // empty for an error without a place in a file
  std::optional<int> line, column;  // set if they are known
  std::string message;
};

struct Validation {
  std::string config;
  bool ok = true;
  std::vector<ValidationError> errors = {};
  std::optional<std::vector<Unchecked>> unchecked = {};  // set for a valid config
};
void fields(results::FieldVisitor& v, Validation& validation);

// Returns what is wrong in a config.
std::vector<ValidationError> list_errors(const Error& error);

}  // namespace trainer::commands
