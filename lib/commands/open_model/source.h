// The kinds of paths that a command takes where it takes a config.
#pragma once

#include "base/files/files.h"

namespace trainer::commands {

enum class SourceKind {
  kConfig,       // any other path, which may not exist
  kRun,          // a folder with run.json
  kImageFolder,  // a folder that contains images at any depth; a zip archive or a path into one
  kImageList,    // a file that ends in .csv or .tsv
};
// Throws DataError for a folder that is neither a run nor one of images; it names the runs in it.
SourceKind find_source_kind(const Path& path);

// Throws DataError for images in place of a run.
void reject_images(const Path& path);
// Throws DataError with what to do for a path that is not a folder with run.json.
void check_is_run(const Path& path);

}  // namespace trainer::commands
