// Quotes words for a shell, and for the containers of manifests.
#pragma once

#include <string>

namespace trainer {

// Returns the text as one word of a POSIX shell: unchanged, or in single quotes if it needs them.
std::string shell_word(const std::string& text);

// Returns the text as a YAML string in double quotes, which are those of JSON. Throws ConfigError
// for bytes that are not UTF-8, which no manifest can hold.
std::string yaml_string(const std::string& text);

// Returns the text as a word of a container's command or environment. Kubernetes replaces $(NAME)
// there, and takes two dollars for one.
std::string container_word(const std::string& text);

}  // namespace trainer
