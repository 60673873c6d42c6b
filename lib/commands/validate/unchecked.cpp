#include "commands/validate/unchecked.h"

#include "base/error.h"
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

}  // namespace trainer::commands
