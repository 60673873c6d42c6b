// Paths of a config file that are written relative to the file.
#pragma once

#include "config/config.h"

namespace trainer::config {

// Replaces the relative paths that a config file names for reading (data and weights) by those
// beside the file, where the current folder does not have them and the folder of the file does.
// Paths of --set and of the environment stay relative to the current folder.
void find_paths_beside_file(LoadedConfig& loaded);

}  // namespace trainer::config
