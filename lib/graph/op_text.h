// Formats the attributes of ops as text.
#pragma once

#include <string>
#include <vector>

namespace trainer::graph {

std::string words(const std::vector<std::string>& parts);  // the non-empty parts, joined by spaces
std::string flag(bool set, const char* name);              // the name or nothing

}  // namespace trainer::graph
