// The kinds of paths that a command takes where it takes a config.
#pragma once

#include <string>

#include "base/files/files.h"

namespace trainer::inference {

enum class SourceKind {
  kConfig,       // any other path, which may not exist
  kRun,          // a folder with run.json
  kImageFolder,  // a folder that contains images at any depth; a zip archive or a path into one
  kImageList,    // a file that ends in .csv or .tsv
};
// Throws DataError for a folder that is neither a run nor one of images; it names the runs in it.
SourceKind find_source_kind(const Path& path);
// Returns whether a path is that of a run folder. Throws as find_source_kind() does.
bool is_run(const Path& path);

// Throws DataError for images in place of a run.
void reject_images(const Path& path);
// Throws DataError with what to do for a path that is not a folder with run.json.
void check_is_run(const Path& path);
// Throws ConfigError for a config that does not exist here and is installed with the program.
void reject_installed_elsewhere(const std::string& path);

}  // namespace trainer::inference
