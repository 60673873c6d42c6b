// Suggests what to write in place of common mistakes: text to append to a message, or "".
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "config/yaml/tree.h"

namespace trainer::config {

// Returns a hint for text that is not valid YAML. `line`, from 0, is where the parser stopped.
std::string syntax_hint(const std::string& text, int line);

// Returns the section to which an unknown key of the section `path` belongs: ", did you mean
// optimizer.adam.learning_rate?".
std::string place_hint(const std::string& key, const std::string& path);

// Recognises Keras's notation for one of several alternatives: {name: adam, lr: 1.0e-3} for
// {adam: {learning_rate: 1.0e-3}}. `keys` are the keys of the map, which do not move.
struct NamedChoice {
  std::string choice;
  std::string message;
};
std::optional<NamedChoice> named_choice(const Node& map, const std::vector<std::string>& choices,
                                        const std::vector<std::string>& keys);

// Returns the message for a path that does not exist, with the name in the same folder that it
// probably means: "no such folder, did you mean 'photos'? Expected a run", or "no such folder;
// expected a run" without such a name.
std::string describe_missing(const std::string& kind, const std::string& path,
                             const std::string& expected);

// Returns what to do with a text that is probably a list of images (CSV) and not a config: its
// first line has a comma or a tab and cannot begin a map.
std::string list_hint(const std::string& text, const std::string& path);

}  // namespace trainer::config
