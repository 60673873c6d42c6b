// The settings of data.csv by which `new` reads a list of images.
#pragma once

#include <vector>

#include "config/config.h"

namespace trainer::commands {

// Returns whether a setting is data.csv or one of its keys.
bool is_of_csv(const config::Override& setting);
// Returns data.csv with the settings of its keys. Ignores those of other keys. Throws ConfigError
// for a wrong value, and for a setting that gives images several labels.
config::Csv read_csv_settings(std::vector<config::Override> settings,
                              const config::Environment& environment);

}  // namespace trainer::commands
