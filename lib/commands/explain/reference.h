// The references of all config keys, and of the files of a run and the lines of --json.
#pragma once

#include <string>

namespace trainer::commands {

// Returns Markdown, made from the field lists, the backbones and the columns of the metrics files.
std::string reference();
// Returns configs/output_reference.md, the keys of the files of a run and of the lines of --json.
std::string output_reference();
// Returns the keys of a result of catalogue.h as lines. Throws ConfigError for another name.
std::string explain_result(const std::string& result);

}  // namespace trainer::commands
