// The reference of everything a config may say and a run leaves: configs/reference.md.
#pragma once

#include <string>

namespace trainer::report {

// Markdown, made from the field lists, the backbones and the columns of the metrics files.
std::string reference();

}  // namespace trainer::report
