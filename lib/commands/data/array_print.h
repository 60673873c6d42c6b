// Text and JSON of the check of arrays by `trainer data`.
#pragma once

#include <string>

#include "data/check_arrays.h"

namespace trainer::commands {

std::string to_text(const data::ArrayCheck& check);
// Returns a line per split and one for all.
std::string to_json(const data::ArrayCheck& check);

}  // namespace trainer::commands
