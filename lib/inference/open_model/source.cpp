#include "inference/open_model/source.h"

#include <algorithm>

#include "base/error.h"
#include "base/process/install.h"
#include "base/process/shell.h"
#include "base/text.h"
#include "config/hints.h"
#include "data/open_images.h"
#include "data/split_folders.h"
#include "inference/open_model/open_model.h"

namespace trainer::inference {
namespace {

namespace fs = std::filesystem;

bool contains_images(const Path& folder) {
  try {
    return data::contains_images(folder.string());
  } catch (const DataError&) {
    return false;
  }
}

// Returns whether a path is that of a folder or an image in a zip archive.
bool leads_into_archive(const Path& path) {
  return !path_exists(path) && data::leads_to_image_files(path.string());
}

// Returns the runs that lie in a folder, in the order of their names.
std::vector<std::string> find_inner_runs(const Path& folder) {
  std::vector<std::string> runs;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    if (fs::exists(entry->path() / "run.json", error)) runs.push_back(entry->path().string());
  }
  std::ranges::sort(runs);
  return runs;
}

}  // namespace

SourceKind find_source_kind(const Path& path) {
  if (!fs::is_directory(path)) {
    const std::string ending = to_lower(path.extension().string());
    if (ending == ".csv" || ending == ".tsv") return SourceKind::kImageList;
    if (ending == ".zip" || leads_into_archive(path)) return SourceKind::kImageFolder;
    return SourceKind::kConfig;
  }
  if (fs::exists(path / "run.json")) return SourceKind::kRun;
  if (contains_images(path)) return SourceKind::kImageFolder;
  constexpr std::size_t kMaxNames = 5;
  if (const std::vector<std::string> runs = find_inner_runs(path); !runs.empty()) {
    throw DataError(path.string(),
                    "is a folder of runs; name one of them: ", join_first(runs, kMaxNames));
  }
  throw DataError(
      path.string(),
      "is neither a run (it has no run.json) nor a folder of images (there are none in "
      "it or in its folders); expected a config, a run, a folder with a folder of "
      "images per class, a zip archive of these, or a list of images and classes (CSV)");
}

bool is_run(const Path& path) { return find_source_kind(path) == SourceKind::kRun; }

void reject_images(const Path& path) {
  const bool exists = path_exists(path) || data::is_folder(path);
  const SourceKind kind = exists ? find_source_kind(path) : SourceKind::kConfig;
  if (kind != SourceKind::kImageFolder && kind != SourceKind::kImageList) return;
  const char* const what = kind == SourceKind::kImageList ? "list"
                           : fs::is_directory(path)       ? "folder"
                                                          : "zip archive";
  throw DataError(path.string(), "is a ", what, " of images, not a run; `trainer train ",
                  printable(shell_word(path.string())), "` trains a model on them");
}

void check_is_run(const Path& path) {
  if (path_exists(path / "run.json")) return;
  reject_images(path);
  if (!path_exists(path)) {
    throw DataError(path.string(),
                    config::describe_missing("folder", path.string(),
                                             "the folder of a run, as `trainer train` leaves it"));
  }
  const std::string word = printable(shell_word(path.string()));
  throw DataError(path.string(),
                  is_config(path.string())
                      ? concat("is a config, not a run; `trainer train ", word, "` makes a run")
                      : "is a file; expected the folder of a run, as `trainer train` leaves it");
}

void reject_installed_elsewhere(const std::string& path) {
  std::error_code error;
  if (std::filesystem::exists(path, error)) return;
  const Path program = std::filesystem::read_symlink("/proc/self/exe", error);
  const Path installed = find_installed_file(program, path);
  if (installed.empty()) return;
  throw ConfigError(SourceLoc{path, 0, 0}, "no such file; the installed one is ",
                    printable(shell_word(installed.string())));
}

}  // namespace trainer::inference
