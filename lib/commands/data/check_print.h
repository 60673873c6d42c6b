// The output of `trainer data`.
#pragma once

#include <string>

#include "data/check.h"
#include "data/check_arrays.h"

namespace trainer::commands {

// Returns the report for people; names from outside are made printable.
std::string to_text(const data::DataCheck& check);
// Returns one object per line: {"event":"split",...} for each split, then {"event":"data",...}.
std::string to_json(const data::DataCheck& check);

std::string to_text(const data::ArrayCheck& check);
// Returns a line per split and one for all.
std::string to_json(const data::ArrayCheck& check);

}  // namespace trainer::commands
