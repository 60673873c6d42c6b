#include "results/evaluation/find_class.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "config/values.h"

namespace trainer::results {

std::int64_t find_class(const std::vector<std::string>& classes, const std::string& name,
                        const std::string& option) {
  const auto found = std::ranges::find(classes, name);
  if (found != classes.end()) return found - classes.begin();
  constexpr std::size_t kMaxNames = 12;
  std::string known = config::suggestion(name, classes);
  if (known.empty()) known = "; classes: " + printable(join_first(classes, kMaxNames));
  throw ConfigError({}, option, ": the model has no class '", printable(name), "'", known);
}

std::int64_t find_positive_class(const std::vector<std::string>& classes, const std::string& name) {
  if (!name.empty()) return find_class(classes, name, "--positive-class");
  if (classes.size() == 2) return 1;
  constexpr std::size_t kMaxNames = 6;
  throw ConfigError({}, "--operating-point needs --positive-class: the model has ", classes.size(),
                    " classes, ", printable(join_first(classes, kMaxNames)));
}

void reject_without_classes(const std::string& option, const std::string& reason) {
  throw ConfigError({}, option, " needs a model that gives each image one class, but ", reason,
                    "; leave the option out");
}

std::string class_name(const std::vector<std::string>& classes, std::size_t index) {
  return index < classes.size() ? classes[index] : std::to_string(index);
}

}  // namespace trainer::results
