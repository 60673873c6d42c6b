// Finds what a run's config names by relative paths when the current folder is not that in which
// the run was started.
#pragma once

#include <string>
#include <vector>

#include "base/files/files.h"
#include "config/config.h"

namespace trainer::inference {

// Replaces the relative paths of the config of `run` by those that hold in the current folder, as
// config::find_paths_of_run() does. `base` is the folder in which the run was started, relative to
// the run folder, so that a copied project is used with its own data. Only reads: whoever made the
// run chose this folder as well as the paths. Ignores an empty and an absolute base.
void find_recorded_paths(config::LoadedConfig& loaded, const Path& run, const std::string& base);

// Returns the base that run.json records for config.yaml beside it, or "".
std::string read_base(const Path& run);

// Returns the config that a run folder records, whose author is not trusted: see
// config::parse_recorded_config(), with its paths as find_recorded_paths() finds them. The
// overrides are the user's own. Throws ConfigError.
config::LoadedConfig load_recorded(const Path& run, const std::vector<config::Override>& overrides,
                                   const config::Environment& environment);

}  // namespace trainer::inference
