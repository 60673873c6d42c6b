// Relative paths of a config that do not hold in the current folder.
#pragma once

#include <filesystem>

#include "config/config.h"

namespace trainer::config {

// Replaces the relative paths that a config file names for reading (data and weights) by those
// beside the file, where the folder of the file has them and the current folder has none of the
// paths of the data, or not that of the weights.
// Paths of --set and of the environment stay relative to the current folder. Sets
// Data::missing_beside_file.
void find_paths_beside_file(LoadedConfig& loaded);

// Does the same for the config that a run records: its paths are relative to the folder in which
// the run was started, which is `base`.
void find_paths_of_run(LoadedConfig& loaded, const std::filesystem::path& base);

}  // namespace trainer::config
