#include "commands/validate/validation.h"

#include "base/text.h"
#include "model/files/import.h"

namespace trainer::commands {

std::vector<Unchecked> list_unchecked(const config::Config& config, train::ModelCheck checked) {
  std::vector<Unchecked> list{{"samples and labels", "data"}};
  if (checked == train::ModelCheck::kNoShape) {
    list.push_back({"shapes of layers, which follow from the data", "plan"});
  } else if (checked == train::ModelCheck::kNoClasses) {
    list.push_back({"number of classes, which follows from the data", "plan"});
  }
  const bool has_weights = !config.model.weights.empty() ||
                           (config.model.backbone && !config.model.backbone->weights.empty());
  const bool are_missing = !model::missing_weights(config.model, {}).empty();
  if (has_weights && (are_missing || checked != train::ModelCheck::kWhole))
    list.push_back({"shapes in the file of weights", "train"});
  list.push_back({"memory and devices", "plan"});
  return list;
}

std::string to_text(const std::vector<Unchecked>& unchecked) {
  std::vector<std::string> parts;
  for (const Unchecked& one : unchecked) {
    parts.push_back(concat(one.what, " (trainer ", one.command, ")"));
  }
  return "not checked: " + join(parts);
}

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
