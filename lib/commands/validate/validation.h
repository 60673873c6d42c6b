// The result of `trainer validate`: what is wrong in a config, and the checks that are left to
// other commands.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "config/config.h"
#include "results/field.h"
#include "train/open.h"

namespace trainer::commands {

struct Unchecked {
  std::string what;     // "samples and labels"
  std::string command;  // the command of trainer that checks it
};

// Lists what may be wrong in a config that is valid. `checked` is the result of
// train::check_model() for it.
std::vector<Unchecked> list_unchecked(const config::Config& config, train::ModelCheck checked);

// Returns "not checked: samples and labels (trainer data), ...".
std::string to_text(const std::vector<Unchecked>& unchecked);

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
