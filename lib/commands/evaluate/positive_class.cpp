#include "commands/evaluate/positive_class.h"

#include "base/error.h"
#include "base/text.h"
#include "commands/open_model/find_class.h"

namespace trainer::commands {

std::int64_t find_positive_class(const std::vector<std::string>& classes, const std::string& name) {
  if (!name.empty()) return find_class(classes, name, "--positive-class");
  if (classes.size() == 2) return 1;
  constexpr std::size_t kMaxNames = 6;
  throw ConfigError(
      {}, concat("--operating-point needs --positive-class: the model has ", classes.size(),
                 " classes, ", printable(join_first(classes, kMaxNames))));
}

}  // namespace trainer::commands
