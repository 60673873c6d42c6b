// Paths of a config file that are written relative to the file.
#pragma once

#include "config/config.h"

namespace trainer::config {

// Replaces the relative paths that a config file names for reading (data and weights) by those
// beside the file, where the folder of the file has them and the current folder has none of the
// paths of the data, or not that of the weights.
// Paths of --set and of the environment stay relative to the current folder. Sets
// Data::missing_beside_file.
void find_paths_beside_file(LoadedConfig& loaded);

}  // namespace trainer::config
