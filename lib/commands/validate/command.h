// The command `validate`.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "commands/context/context.h"
#include "config/config.h"
#include "results/field.h"

namespace trainer::commands {

struct ValidateArguments {
  std::vector<std::string> configs;
  std::vector<config::Override> overrides;
  bool json = false;
};
// Returns the exit code of the last config with errors.
int execute(const ValidateArguments& arguments, const Context& context);

struct Unchecked {
  std::string what;     // "samples and labels"
  std::string command;  // the command of trainer that checks it
};

struct ValidationError {
  std::string file;                 // empty for an error without a place in a file
  std::optional<int> line, column;  // set if they are known
  std::string message;
};

// What `validate --json` prints of a config.
struct Validation {
  std::string config;
  bool ok = true;
  std::vector<ValidationError> errors = {};
  std::optional<std::vector<Unchecked>> unchecked = {};  // set for a valid config
};
void fields(results::FieldVisitor& v, Validation& validation);

}  // namespace trainer::commands
