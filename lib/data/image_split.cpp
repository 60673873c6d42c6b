#include "data/image_split.h"

#include <filesystem>
#include <map>
#include <string>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "data/images/listing/folders.h"
#include "data/images/listing/list_shards.h"
#include "data/images/listing/shards.h"
#include "data/images/listing/zip_folder.h"
#include "data/split_folders.h"

namespace trainer::data {
namespace {

namespace fs = std::filesystem;

// Throws because data.path contains no images of the training split.
[[noreturn]] void fail_without_train(const config::Data& data) {
  const bool csv = data.format == config::DataFormat::kCsv;
  const fs::path folder = data.path;
  const std::string expected = (folder / (csv ? "train.csv" : "train")).string();
  if (csv || !is_folder(folder)) {
    throw DataError(expected,
                    "no such file or folder, needed for the train split; give data.train.path");
  }
  if (const auto place = find_zip_place(folder)) {
    throw DataError(data.path,
                    "contains no folders that name classes of images; pack the images of each "
                    "class in a folder of its name, e.g. cats/1.jpg");
  }
  if (find_loose_images(data.path).count > 0 && sub_folders(data.path).empty()) {
    throw DataError(data.path,
                    "contains image files, but no folders that name their classes; put the "
                    "files of each class into a folder of its name, e.g. ",
                    (folder / "cats" / "1.jpg").string(),
                    ", or list files and classes with data.format: csv");
  }
  throw DataError(expected,
                  "no such folder, needed for the train split; give data.train.path, or "
                  "put a folder for each class into data.path");
}

bool contains_shards(const fs::path& folder, bool tar) {
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (is_shard_name(it->path().filename().string(), tar)) return true;
  }
  return false;
}

// Returns, by split, the csv file or the folder of shards in data.path that is named after the
// split.
std::map<Split, Path> find_split_lists(const config::Data& data) {
  const bool csv = data.format == config::DataFormat::kCsv;
  const bool tar = data.format == config::DataFormat::kWebDataset;
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(data.path, error), end; !error && it != end; it.increment(error)) {
    std::error_code of_entry;
    const fs::path& path = it->path();
    if (path.filename().string().starts_with('.')) continue;  // also "._train.csv" of macOS
    const bool fits =
        csv ? path.extension() == ".csv" : it->is_directory(of_entry) && contains_shards(path, tar);
    if (fits) names.push_back((csv ? path.stem() : path.filename()).string());
  }
  std::map<Split, Path> paths;
  for (const auto& [split, name] : choose_split_names(data.path, names)) {
    paths[split] = fs::path(data.path) / (csv ? name + ".csv" : name);
  }
  return paths;
}

// Throws DataError if the shards in data.path are named after several splits: training would use
// all of them.
void reject_shards_of_splits(const config::Data& data) {
  if (!fs::is_directory(data.path)) return;
  std::map<Split, std::string> examples;
  const bool tar = data.format == config::DataFormat::kWebDataset;
  for (const fs::path& path : shard_files(data.path, tar)) {
    const std::string name = path.filename().string();
    if (const auto split = find_split_in_name(name)) examples.try_emplace(*split, name);
  }
  if (examples.size() < 2) return;
  std::vector<std::string> names;
  for (const auto& [split, name] : examples) names.push_back(name);
  throw DataError(data.path, "contains shards of several splits, e.g. ", join(names),
                  "; move those of each split into a folder of its own: train, validation, test");
}

}  // namespace

bool needs_split_in_path(const config::Data& data, Split split) {
  return !data.path.empty() && data.files(split).path.empty() && data.files(split).glob.empty();
}

config::SplitFiles image_split(const config::Data& data, Split which) {
  config::SplitFiles split = data.files(which);
  const bool folders = data.format == config::DataFormat::kImageFolder;
  if (!needs_split_in_path(data, which)) {
    if (folders && split.glob.empty()) split.path = find_zip_root(split.path, OnlyFolder::kEnter);
    return split;
  }
  const std::string root = folders ? find_data_root(data.path).string() : data.path;
  std::map<Split, Path> paths;
  if (!folders) {
    paths = find_split_lists(data);
  } else if (is_folder(root)) {
    paths = find_split_folders(root, data.classes).paths;
  }
  if (const auto found = paths.find(which); found != paths.end()) split.path = found->second;
  if (!split.path.empty() || which != Split::kTrain) return split;
  if (holds_shards(data)) {  // a shard, or a folder of them
    reject_shards_of_splits(data);
    split.path = data.path;
    return split;
  }
  if (!folders || !is_folder(root) || sub_folders(root).empty()) fail_without_train(data);
  split.path = root;
  return split;
}

}  // namespace trainer::data
