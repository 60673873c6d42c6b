// The splits of a config.
#pragma once

#include "config/config.h"

namespace trainer::data {

enum class Role { kTrain, kValidation, kTest };
const char* name_of(Role role);  // "train", "validation", "test"
const config::Split& split_of(const config::Data& config, Role role);
// Whether the config names files of this split.
bool given(const config::Split& split);

// Which splits are to be opened.
struct Wanted {
  bool train = true, validation = true, test = true;
};

}  // namespace trainer::data
