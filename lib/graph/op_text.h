// Text of attributes that several ops share. Internal to graph.
#pragma once

#include <string>
#include <vector>

#include "graph/op.h"

namespace trainer::graph {

std::string words(const std::vector<std::string>& parts);   // the non-empty parts, joined by spaces
std::string flag(bool set, const char* name);               // the name or nothing
std::string activation_text(const Activation& activation);  // "leaky_relu 0.1"; nothing for linear
std::string window_text(const Window& window);              // "3x3 stride 2 pad 1,1,1,1"

}  // namespace trainer::graph
