#include "model/names.h"

#include <algorithm>
#include <cctype>
#include <map>

#include "base/text.h"
#include "config/values.h"

namespace trainer::model {
namespace {

// Returns the start of Keras's automatic names of a class: "max_pooling2d", "re_lu".
std::string to_snake_case(std::string_view name) {
  const auto is_lower = [&](std::size_t i) {
    return i < name.size() && std::islower(static_cast<unsigned char>(name[i])) != 0;
  };
  std::string text;
  for (std::size_t i = 0; i < name.size(); ++i) {
    const bool is_upper = std::isupper(static_cast<unsigned char>(name[i])) != 0;
    if (is_upper && i > 0 && (is_lower(i - 1) || is_lower(i + 1))) text += '_';
    text += name[i];
  }
  return to_lower(text);
}

}  // namespace

std::vector<std::string> layer_names(const std::vector<config::Layer>& layers,
                                     std::vector<Diagnostic>& errors) {
  std::map<std::string, SourceLoc> taken;
  for (const config::Layer& layer : layers) {
    if (layer.name.empty()) continue;
    if (layer.name == "input") {
      errors.push_back({layer.loc, "layer name 'input' means the image; choose another name"});
    } else if (const auto [other, fresh] = taken.emplace(layer.name, layer.loc); !fresh) {
      errors.push_back({layer.loc, concat("two layers are named '", layer.name, "' (the other: ",
                                          to_string(other->second), "); names must be unique")});
    }
  }
  std::vector<std::string> result;
  std::map<std::string, int> count;
  for (const config::Layer& layer : layers) {
    std::string name = layer.name;
    while (name.empty() || (layer.name.empty() && taken.contains(name))) {
      const std::string start = to_snake_case(config::keras_class(layer));
      const int number = count[start]++;
      name = number == 0 ? start : concat(start, "_", number);
    }
    result.push_back(name);
  }
  return result;
}

std::string suggest_layers(const std::string& name, std::vector<std::string> known,
                           const char* which) {
  constexpr std::ptrdiff_t kMaxListed = 12;
  if (const std::string guess = config::suggestion(name, known); !guess.empty()) return guess;
  const std::ptrdiff_t first = std::max<std::ptrdiff_t>(std::ssize(known) - kMaxListed, 0);
  known.erase(known.begin(), known.begin() + first);
  return concat(first > 0 ? "; the last layers" : "; layers", which, ": ", join(known));
}

}  // namespace trainer::model
