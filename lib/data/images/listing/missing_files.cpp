#include "data/images/listing/missing_files.h"

#include <algorithm>

#include "base/error.h"
#include "base/process/shell.h"
#include "base/text.h"

namespace trainer::data {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxFolders = 200;  // that are searched

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

std::optional<ImagePlace> find_images_near(const fs::path& folder,
                                           const std::vector<std::string>& names) {
  for (const fs::path& near : folders_near(folder.empty() ? fs::path(".") : folder)) {
    for (const char* ending : {"", ".jpg", ".jpeg", ".png", ".JPG", ".JPEG", ".PNG"}) {
      const auto exists = [&](const std::string& name) {
        return !name.empty() && is_file(near / (name + ending));
      };
      if (std::ranges::all_of(names, exists)) return ImagePlace{near, ending};
    }
  }
  return std::nullopt;
}

std::vector<std::string> describe_keys(const ImagePlace& place, const fs::path& folder) {
  std::vector<std::string> keys;
  const fs::path found = place.folder.lexically_normal();
  if (found != (folder.empty() ? fs::path(".") : folder).lexically_normal()) {
    keys.push_back("root: " + config::to_yaml(found.string()));
  }
  if (!place.ending.empty()) keys.push_back("ending: " + place.ending);
  return keys;
}

std::string csv_root_advice() {
  return "paths in a csv count from its own folder, or from the one of --set data.csv.root=FOLDER";
}

std::string describe_missing_files(const ImageList& list, const config::Csv& csv) {
  if (list.lines.empty() || list.files.size() < 2) return "";
  for (const ListedFile& file : list.files) {
    if (is_file(file.path)) return "";
  }
  const fs::path csv_folder = fs::path(list.source).parent_path();
  const fs::path root = csv.root.empty() ? csv_folder : fs::path(csv.root);
  std::string text = concat("none of the ", list.files.size(), " files of ", list.source,
                            " exists, e.g. ", list.files[0].path);
  constexpr std::size_t kTried = 3;  // files that must be found
  std::vector<std::string> names;
  for (std::size_t i = 0; i < std::min(list.files.size(), kTried); ++i) {
    std::string name = fs::path(list.files[i].path).lexically_relative(root).string();
    if (name.ends_with(csv.ending)) name.resize(name.size() - csv.ending.size());
    names.push_back(std::move(name));
  }
  if (const std::optional<ImagePlace> place = find_images_near(csv_folder, names)) {
    const std::string value = '{' + join(describe_keys(*place, csv_folder)) + '}';
    const fs::path first = place->folder / (names[0] + place->ending);
    return concat(text, "; ", first.lexically_normal().string(), " does: give --set ",
                  shell_word("data.csv=" + value), ", or write data.csv: ", value,
                  " into the config");
  }
  return text + "; " + csv_root_advice();
}

}  // namespace trainer::data
