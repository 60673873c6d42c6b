// The backbones that a config may name, and their sizes.
#pragma once

#include <iosfwd>

namespace trainer::commands {

void print_backbones(std::ostream& out);
// Prints one line of JSON.
void print_backbones_json(std::ostream& out);

}  // namespace trainer::commands
