// What to write instead, for mistakes that many make: text behind a message, or "".
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "config/yaml/tree.h"

namespace trainer::config {

// For text that is no YAML; `line`, from 0, is where the parser gave up.
std::string syntax_hint(const std::string& text, int line);

// Where an unknown key of the section `path` belongs: ", did you mean
// optimizer.adam.learning_rate?"
std::string place_hint(const std::string& key, const std::string& path);

// Keras's way to name one of several alternatives: {name: adam, lr: 1.0e-3} for
// {adam: {learning_rate: 1.0e-3}}. `keys`: of the map, which stay where they are.
struct NamedChoice {
  std::string choice;
  std::string message;
};
std::optional<NamedChoice> named_choice(const Node& map, const std::vector<std::string>& choices,
                                        const std::vector<std::string>& keys);

}  // namespace trainer::config
