#include "data/images/listing/missing_files.h"

#include <algorithm>
#include <filesystem>
#include <vector>

#include "base/error.h"
#include "base/process/shell.h"
#include "base/text.h"

namespace trainer::data {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxFolders = 200;  // that are searched
constexpr std::size_t kTried = 3;         // files that must be found

bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

// Returns `folder` and folders up to two levels below it.
std::vector<fs::path> folders_near(const fs::path& folder) {
  std::vector<fs::path> folders{folder};
  std::error_code error;
  fs::recursive_directory_iterator it(folder, fs::directory_options::skip_permission_denied, error);
  for (const fs::recursive_directory_iterator end; !error && it != end; it.increment(error)) {
    if (folders.size() >= kMaxFolders) break;
    std::error_code of_entry;
    if (!it->is_directory(of_entry)) continue;
    folders.push_back(it->path());
    if (it.depth() >= 1) it.disable_recursion_pending();
  }
  std::sort(folders.begin() + 1, folders.end());
  return folders;
}

}  // namespace

std::string csv_root_advice() {
  return "paths in a csv count from its own folder, or from the one of --set data.csv.root=FOLDER";
}

std::string describe_missing_files(const ImageList& list, const config::Csv& csv) {
  if (list.lines.empty() || list.files.size() < 2) return "";
  for (const ListedFile& file : list.files) {
    if (is_there(file.path)) return "";
  }
  const fs::path own = fs::path(list.source).parent_path();
  const fs::path root = csv.root.empty() ? own : fs::path(csv.root);
  std::string text = concat("none of the ", list.files.size(), " files of ", list.source,
                            " exists, e.g. ", list.files[0].path);
  for (const fs::path& folder : folders_near(own.empty() ? fs::path(".") : own)) {
    for (const char* ending : {"", ".jpg", ".jpeg", ".png", ".JPG", ".JPEG", ".PNG"}) {
      const auto locate = [&](const ListedFile& file) {
        std::string name = fs::path(file.path).lexically_relative(root).string();
        if (name.ends_with(csv.ending)) name.resize(name.size() - csv.ending.size());
        return folder / (name + ending);
      };
      const std::size_t tried = std::min(list.files.size(), kTried);
      const bool found =
          std::all_of(list.files.begin(), list.files.begin() + tried,
                      [&](const ListedFile& file) { return is_there(locate(file)); });
      if (!found) continue;
      std::vector<std::string> keys;
      if (folder != own) {
        keys.push_back("root: " + config::to_yaml(folder.lexically_normal().string()));
      }
      if (*ending != '\0') keys.push_back(concat("ending: ", ending));
      const std::string value = '{' + join(keys) + '}';
      return concat(text, "; ", locate(list.files[0]).lexically_normal().string(), " does: give ",
                    "--set ", shell_word("data.csv=" + value), ", or write data.csv: ", value,
                    " into the config");
    }
  }
  return text + "; " + csv_root_advice();
}

}  // namespace trainer::data
