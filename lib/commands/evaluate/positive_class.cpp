#include "commands/evaluate/positive_class.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"

namespace trainer::commands {

std::int64_t find_positive_class(const std::vector<std::string>& classes, const std::string& name) {
  constexpr std::size_t kMaxNames = 6;
  std::vector<std::string> names;
  for (const std::string& each : classes) names.push_back(printable(each));
  if (name.empty()) {
    if (classes.size() == 2) return 1;
    throw ConfigError({}, concat("--operating-point needs --positive-class: the model has ",
                                 classes.size(), " classes, ", join_first(names, kMaxNames)));
  }
  const auto found = std::find(classes.begin(), classes.end(), name);
  if (found == classes.end()) {
    throw ConfigError(
        {}, concat("--positive-class: ", printable(name), " is not a class of the model; it has ",
                   join_first(names, kMaxNames)));
  }
  return found - classes.begin();
}

}  // namespace trainer::commands
