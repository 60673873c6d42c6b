#include "base/process/shell.h"

#include <nlohmann/json.hpp>
#include <string_view>

#include "base/error.h"

namespace trainer {

std::string shell_word(const std::string& text) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789%+,-./:=@_";
  if (!text.empty() && text.find_first_not_of(kPlain) == std::string::npos) return text;
  std::string word = "'";
  for (const char letter : text) word += letter == '\'' ? "'\\''" : std::string(1, letter);
  return word + "'";
}

std::string yaml_string(const std::string& text) {
  try {
    return nlohmann::json(text).dump();
  } catch (const nlohmann::json::type_error&) {
    throw ConfigError({}, "'", text,
                      "' is not UTF-8, so that a manifest cannot hold it; choose another name");
  }
}

std::string container_word(const std::string& text) {
  std::string escaped;
  for (const char letter : text) escaped += letter == '$' ? "$$" : std::string(1, letter);
  return yaml_string(escaped);
}

}  // namespace trainer
