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
// Throws DataError for a folder that is neither a run nor one of images.
SourceKind find_source_kind(const Path& path);

}  // namespace trainer::commands
