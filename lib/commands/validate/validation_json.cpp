#include "commands/validate/validation_json.h"

namespace trainer::commands {

std::vector<ValidationError> list_errors(const Error& error) {
  const auto* located = dynamic_cast<const ConfigError*>(&error);
  if (located == nullptr) return {{"", {}, {}, error.what()}};
  std::vector<ValidationError> errors;
  for (const Diagnostic& each : located->diagnostics()) {
    ValidationError& one = errors.emplace_back();
    one.file = each.loc.file;
    if (each.loc.line > 0) {
      one.line = each.loc.line;
      one.column = each.loc.column;
    }
    one.message = each.message;
  }
  return errors;
}

void fields(results::FieldVisitor& v, ValidationError& error) {
  v.when_present("file", error.file, "The file that has the error.");
  v.when_present("line", error.line, "Its line, from 1.");
  v.when_present("column", error.column, "Its column, from 1.");
  v("message", error.message, "What is wrong.");
}

void fields(results::FieldVisitor& v, Unchecked& unchecked) {
  v("what", unchecked.what, "What is not checked.");
  v("command", unchecked.command, "The command that checks it.");
}

void fields(results::FieldVisitor& v, Validation& validation) {
  v.event("validated");
  v("config", validation.config, "The file of the config.");
  v("ok", validation.ok, "Whether it is valid.");
  v("errors", validation.errors, "What is wrong.");
  v.when_present("not_checked", validation.unchecked, "What may be wrong in a valid config.");
}

}  // namespace trainer::commands
