#include "commands/open_model/source.h"

#include "base/error.h"
#include "base/text.h"
#include "data/open_images.h"

namespace trainer::commands {
namespace {

bool contains_images(const Path& folder) {
  try {
    return !data::image_files(folder.string()).empty();
  } catch (const DataError&) {
    return false;
  }
}

// Returns whether a path is that of a folder or an image in a zip archive.
bool leads_into_archive(const Path& path) {
  std::error_code error;
  return !std::filesystem::exists(path, error) && data::leads_to_image_files(path.string());
}

}  // namespace

SourceKind find_source_kind(const Path& path) {
  if (!std::filesystem::is_directory(path)) {
    const std::string ending = to_lower(path.extension().string());
    if (ending == ".csv" || ending == ".tsv") return SourceKind::kImageList;
    if (ending == ".zip" || leads_into_archive(path)) return SourceKind::kImageFolder;
    return SourceKind::kConfig;
  }
  if (std::filesystem::exists(path / "run.json")) return SourceKind::kRun;
  if (contains_images(path)) return SourceKind::kImageFolder;
  throw DataError(
      path.string(),
      "is neither a run (it has no run.json) nor a folder of images (there are none in "
      "it or in its folders); expected a config, a run, a folder with a folder of "
      "images per class, a zip archive of these, or a list of images and classes (CSV)");
}

}  // namespace trainer::commands
