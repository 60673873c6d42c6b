// Which image files a split has, and the class of each.
#include "data/images/image_list.h"

#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <functional>
#include <map>
#include <set>

#include "base/error.h"
#include "base/files.h"
#include "base/glob.h"
#include "base/random.h"
#include "base/text.h"
#include "base/threads/parallel.h"
#include "data/images/csv.h"
#include "data/images/shards.h"
#include "data/splits.h"

namespace trainer::data {
namespace {

namespace fs = std::filesystem;

bool hidden(const fs::path& path) { return path.filename().string().starts_with('.'); }

bool is_image_name(const fs::path& path) {
  static const std::set<std::string> kEndings{".jpg", ".jpeg", ".jpe", ".jfif", ".mpo",  ".png",
                                              ".bmp", ".gif",  ".tga", ".psd",  ".ppm",  ".pgm",
                                              ".pnm", ".webp", ".tif", ".tiff", ".heic", ".avif"};
  std::string ending = path.extension().string();
  std::transform(ending.begin(), ending.end(), ending.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return kEndings.contains(ending);
}

void check_folder(const fs::path& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) return;
  throw DataError(path.string(), fs::exists(path, error)
                                     ? "is not a folder; format image_folder needs one folder a "
                                       "class"
                                     : "no such folder");
}

std::vector<std::string> sub_folders(const fs::path& path) {
  check_folder(path);
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(path)) {
    std::error_code error;
    if (entry.is_directory(error) && !hidden(entry.path())) {
      names.push_back(entry.path().filename().string());
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

// What is named like an image but is no file that could be read.
struct NoFiles {
  std::int64_t count = 0;
  std::string example;  // the first of them, and what it is

  void add(const fs::path& path, const char* what) {
    const std::string text = concat(path.string(), " (", what, ')');
    if (count++ == 0 || text < example) example = text;
  }
};

const char* kind_of(const fs::directory_entry& entry) {
  std::error_code error;
  const bool is_link = entry.is_symlink(error);
  switch (entry.status(error).type()) {
    case fs::file_type::directory:
      return "a folder";
    case fs::file_type::fifo:
      return "a pipe";
    case fs::file_type::socket:
      return "a socket";
    case fs::file_type::block:
    case fs::file_type::character:
      return "a device";
    default:
      return is_link ? "a link to nothing" : "no file";
  }
}

// Which folder a path leads to, whatever its name.
using FolderId = std::pair<dev_t, ino_t>;
FolderId id_of(const fs::path& folder) {
  struct stat info {};
  if (::stat(folder.c_str(), &info) != 0) return {};
  return {info.st_dev, info.st_ino};
}

// Calls use(path) for every file below `folder` that is not hidden, in no order. Links are
// followed, but not into a folder that is being walked already.
template <class Use>
void walk(const fs::path& folder, const Use& use, NoFiles& no_files,
          std::vector<FolderId> outer = {}) {
  outer.push_back(id_of(folder));
  std::error_code error;
  fs::directory_iterator it(folder, error);
  for (; !error && it != fs::directory_iterator(); it.increment(error)) {
    if (hidden(it->path())) continue;
    std::error_code of_entry;
    if (it->is_directory(of_entry)) {
      const bool inside = std::find(outer.begin(), outer.end(), id_of(it->path())) != outer.end();
      if (!inside) walk(it->path(), use, no_files, outer);
    } else if (it->is_regular_file(of_entry)) {
      use(it->path());
    } else if (is_image_name(it->path())) {
      no_files.add(it->path(), kind_of(*it));
    }
  }
  if (error) throw DataError(folder.string(), error.message());
}

// The line on what is left aside; "" when nothing is.
std::string left_aside(const std::string& source, const NoFiles& no_files) {
  if (no_files.count == 0) return "";
  return concat(source, ": ", no_files.count,
                no_files.count == 1 ? " name of an image is" : " names of images are",
                " left aside, not being files, e.g. ", no_files.example);
}

void note_left_aside(ImageList& list, std::string line) {
  if (line.empty()) return;
  list.notes.push_back(line);
  list.left_aside.push_back(std::move(line));
}

// The files of a glob: the folders before its first wildcard are walked.
std::vector<std::string> glob_files(const config::Split& split, NoFiles& no_files) {
  const std::string full =
      split.path.empty() ? split.glob : (fs::path(split.path) / split.glob).string();
  const std::size_t wildcard = full.find_first_of("*?");
  const std::size_t slash = full.rfind('/', wildcard);
  const std::string base = slash == std::string::npos ? "." : full.substr(0, slash);
  const std::string pattern = slash == std::string::npos ? full : full.substr(slash + 1);
  check_folder(base.empty() ? "/" : base);
  std::vector<std::string> files;
  const auto use = [&](const fs::path& path) {
    if (matches_path(pattern, path.lexically_relative(base).generic_string())) {
      files.push_back(slash == std::string::npos ? path.lexically_normal().string()
                                                 : path.string());
    }
  };
  walk(base.empty() ? "/" : base, use, no_files);
  std::sort(files.begin(), files.end());
  if (files.empty()) throw DataError(full, "matches no file");
  return files;
}

std::string parent_name(const std::string& path) {
  return fs::path(path).parent_path().filename().string();
}

bool as_index(const std::string& text, std::int32_t& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && value >= 0;
}

// The class that a label of a list names: by its name, or its number.
std::int32_t class_of(const std::string& label, const std::map<std::string, std::int32_t>& indices,
                      const std::vector<std::string>& classes,
                      const std::function<void(const std::string&)>& fail) {
  if (const auto found = indices.find(label); found != indices.end()) return found->second;
  std::int32_t index = 0;
  if (!as_index(label, index) || index >= static_cast<std::int32_t>(classes.size())) {
    fail(concat("the label '", escaped(label), "' is not a class; the classes are ", join(classes),
                " (or 0 to ", classes.size() - 1, ")"));
  }
  return index;
}

std::map<std::string, std::int32_t> indices_of(const std::vector<std::string>& classes) {
  std::map<std::string, std::int32_t> indices;
  for (const std::string& name : classes) {
    indices.emplace(name, static_cast<std::int32_t>(indices.size()));
  }
  return indices;
}

ImageList list_csv(const config::Data& data, const config::Split& split,
                   const std::vector<std::string>& classes) {
  ImageList result;
  result.source = split.path;
  const auto indices = indices_of(classes);
  for (const CsvRow& row : read_csv(split.path, data.csv)) {
    const std::int32_t label = class_of(row.label, indices, classes, [&](const std::string& what) {
      fail_at(split.path, row.line, what);
    });
    result.files.push_back({row.path, label, row.weight});
    result.has_weights = result.has_weights || row.has_weight;
    result.lines.push_back(row.line);
  }
  return result;
}

// Image files beside the folders of the classes, which have no class.
std::string files_without_class(const std::string& folder) {
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    std::error_code error;
    if (entry.is_regular_file(error) && !hidden(entry.path()) && is_image_name(entry.path())) {
      files.push_back(entry.path().string());
    }
  }
  if (files.empty()) return "";
  return concat(folder, ": ", files.size(),
                files.size() == 1 ? " image file is" : " image files are",
                " left aside, lying in no folder of a class, e.g. ",
                *std::min_element(files.begin(), files.end()));
}

ImageList list_folder(const config::Split& split, const std::vector<std::string>& classes) {
  ImageList result;
  result.source = split.path;
  for (const std::string& name : sub_folders(split.path)) {
    if (std::find(classes.begin(), classes.end(), name) == classes.end()) {
      throw DataError((fs::path(split.path) / name).string(),
                      concat("is not a class: the classes are ", join(classes),
                             "; name it in data.classes or move it away"));
    }
  }
  note_left_aside(result, files_without_class(split.path));
  std::int64_t other = 0;
  std::string example;
  NoFiles no_files;
  for (std::size_t label = 0; label < classes.size(); ++label) {
    const fs::path folder = fs::path(split.path) / classes[label];
    if (!fs::exists(folder)) {
      note_left_aside(result, concat(split.path, ": has no folder ", classes[label],
                                     "; no image of this class is in this split"));
      continue;
    }
    check_folder(folder);
    const std::size_t before = result.files.size();
    const auto use = [&](const fs::path& path) {
      if (is_image_name(path)) {
        result.files.push_back({path.string(), static_cast<std::int32_t>(label)});
      } else if (other++ == 0) {
        example = path.string();
      }
    };
    walk(folder, use, no_files);
    if (result.files.size() == before) throw DataError(folder.string(), "holds no image files");
    std::sort(result.files.begin() + static_cast<std::ptrdiff_t>(before), result.files.end(),
              [](const ListedFile& a, const ListedFile& b) { return a.path < b.path; });
  }
  if (result.files.empty()) {
    throw DataError(split.path,
                    concat("has no folder of a class; the classes are ", join(classes)));
  }
  note_left_aside(result, left_aside(split.path, no_files));
  if (other > 0) {
    result.notes.push_back(concat(split.path, ": ", other,
                                  " files are left aside, not being named like images, e.g. ",
                                  example));
  }
  return result;
}

ImageList list_glob(const config::Split& split, const std::vector<std::string>& classes) {
  ImageList result;
  result.source = split.glob;
  NoFiles no_files;
  for (const std::string& path : glob_files(split, no_files)) {
    const std::string name = parent_name(path);
    const auto found = std::find(classes.begin(), classes.end(), name);
    if (found == classes.end()) {
      throw DataError(
          path, concat("its folder '", name, "' is not a class; the classes are ", join(classes)));
    }
    result.files.push_back({path, static_cast<std::int32_t>(found - classes.begin())});
  }
  note_left_aside(result, left_aside(split.glob, no_files));
  return result;
}

// Class names of a list: the labels, or 0, 1, ... when all are numbers.
std::vector<std::string> classes_of(
    const std::vector<std::string>& labels,
    const std::function<void(std::size_t, const std::string&)>& fail) {
  std::set<std::string> names;
  std::int32_t most = -1;
  std::size_t largest = 0;  // which has it
  bool numbers = true;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    std::int32_t index = 0;
    numbers = numbers && as_index(labels[i], index);
    if (index > most) largest = i;
    most = std::max(most, index);
    names.insert(labels[i]);
  }
  if (!numbers) return {names.begin(), names.end()};
  if (most >= most_classes(static_cast<std::int64_t>(labels.size()))) {
    fail(largest, concat("the label ", most, " would make ", std::int64_t{most} + 1, " classes of ",
                         labels.size(),
                         " files; number the classes from 0, or name them with data.classes"));
  }
  std::vector<std::string> result;
  for (std::int32_t i = 0; i <= most; ++i) result.push_back(std::to_string(i));
  return result;
}

std::vector<std::string> csv_classes(const std::string& path, const config::Csv& csv) {
  const std::vector<CsvRow> rows = read_csv(path, csv);
  std::vector<std::string> labels;
  for (const CsvRow& row : rows) labels.push_back(row.label);
  return classes_of(labels, [&](std::size_t row, const std::string& what) {
    fail_at(path, rows[row].line, what);
  });
}

bool holds_shards(const config::Data& data) {
  return data.format == config::DataFormat::kTfRecord ||
         data.format == config::DataFormat::kWebDataset;
}

struct Shard {
  std::string path;
  std::vector<ShardSample> samples;
};

// The samples of all shards of a split, in the order of their names.
std::vector<Shard> read_shards(const config::Data& data, const config::Split& split) {
  const bool tar = data.format == config::DataFormat::kWebDataset;
  std::vector<fs::path> files;
  if (split.glob.empty()) {
    files = shard_files(split.path, tar);
  } else {
    NoFiles no_files;
    for (const std::string& path : glob_files(split, no_files)) files.emplace_back(path);
  }
  std::vector<Shard> shards(files.size());
  parallel_for(files.size(), [&](std::size_t i) {
    shards[i] = {files[i].string(), tar ? read_tar_shard(files[i]) : read_tfrecord(files[i])};
  });
  std::size_t samples = 0;
  for (const Shard& shard : shards) {
    samples += shard.samples.size();
    for (const ShardSample& sample : shard.samples) {
      if (!sample.label.empty()) continue;
      throw DataError(concat(shard.path, ": ", sample.name),
                      tar ? "has no class: there is no .cls or .json file of its name with one"
                          : "has no class: features image/class/label, label, class and "
                            "image/class/text are read");
    }
  }
  if (samples == 0) throw DataError(files[0].string(), "holds no images");
  return shards;
}

ImageList list_shards(const config::Data& data, const config::Split& split,
                      const std::vector<std::string>& classes) {
  ImageList result;
  result.source = split.glob.empty() ? split.path : split.glob;
  const auto indices = indices_of(classes);
  for (const Shard& shard : read_shards(data, split)) {
    for (const ShardSample& sample : shard.samples) {
      const auto fail = [&](const std::string& what) {
        throw DataError(concat(shard.path, ": ", sample.name), what);
      };
      ListedFile file{shard.path, class_of(sample.label, indices, classes, fail)};
      file.offset = sample.offset;
      file.bytes = sample.bytes;
      file.name = sample.name;
      result.files.push_back(std::move(file));
    }
  }
  return result;
}

std::vector<std::string> shard_classes(const config::Data& data, const config::Split& split) {
  std::vector<std::string> labels, places;
  for (const Shard& shard : read_shards(data, split)) {
    for (const ShardSample& sample : shard.samples) {
      labels.push_back(sample.label);
      places.push_back(concat(shard.path, ": ", sample.name));
    }
  }
  return classes_of(
      labels, [&](std::size_t i, const std::string& what) { throw DataError(places[i], what); });
}

}  // namespace

std::vector<std::string> images_below(const std::string& folder) {
  std::vector<std::string> files;
  NoFiles no_files;
  const auto use = [&](const fs::path& path) {
    if (is_image_name(path)) files.push_back(path.string());
  };
  walk(folder, use, no_files);
  std::sort(files.begin(), files.end());
  return files;
}

namespace {

const std::set<std::string> kSplitFolders{"train", "validation", "val", "test"};

// Whether the folders below are classes rather than splits.
bool holds_classes(const fs::path& folder) {
  if (!fs::is_directory(folder)) return false;
  const std::vector<std::string> names = sub_folders(folder.string());
  return !names.empty() && std::none_of(names.begin(), names.end(), [](const std::string& name) {
    return kSplitFolders.contains(name);
  });
}

// Where the images of training could not be found below data.path.
[[noreturn]] void fail_without_train(const config::Data& data) {
  const bool csv = data.format == config::DataFormat::kCsv;
  const fs::path folder = data.path;
  const std::string expected = (folder / (csv ? "train.csv" : "train")).string();
  if (csv || !fs::is_directory(folder)) {
    throw DataError(expected,
                    "no such file or folder, needed for the train split; give "
                    "data.train.path");
  }
  const std::string loose = files_without_class(data.path);
  if (!loose.empty() && sub_folders(data.path).empty()) {
    throw DataError(data.path,
                    concat("holds image files, but no folders to tell their classes by; put those "
                           "of each class into a folder of its name, e.g. ",
                           (folder / "cats" / "1.jpg").string(),
                           ", or list files and classes with data.format: csv"));
  }
  throw DataError(expected,
                  "no such folder, needed for the train split; give data.train.path, or "
                  "put a folder for each class into data.path");
}

}  // namespace

config::Split image_split(const config::Data& data, const std::string& name) {
  config::Split split = name == "train" ? data.train : name == "test" ? data.test : data.validation;
  if (!split.path.empty() || !split.glob.empty() || data.path.empty()) return split;
  const bool csv = data.format == config::DataFormat::kCsv;
  std::vector<std::string> names{name};
  if (name == "validation") names.emplace_back("val");
  for (const std::string& each : names) {
    const fs::path path = fs::path(data.path) / (csv ? each + ".csv" : each);
    if (fs::exists(path)) split.path = path.string();
  }
  if (!split.path.empty() || name != "train") return split;
  if (holds_shards(data)) {  // a shard, or a folder of them
    split.path = data.path;
    return split;
  }
  if (csv || !holds_classes(data.path)) fail_without_train(data);
  split.path = data.path;
  return split;
}

namespace {

std::vector<std::string> find_class_names(const config::Data& data, const config::Split& split) {
  if (data.format == config::DataFormat::kCsv) return csv_classes(split.path, data.csv);
  if (holds_shards(data)) return shard_classes(data, split);
  if (split.glob.empty()) {
    std::vector<std::string> names = sub_folders(split.path);
    if (names.empty()) {
      throw DataError(split.path, "holds no folders; format image_folder needs one a class");
    }
    return names;
  }
  std::set<std::string> names;
  NoFiles no_files;
  for (const std::string& path : glob_files(split, no_files)) names.insert(parent_name(path));
  return {names.begin(), names.end()};
}

}  // namespace

std::vector<std::string> class_names(const config::Data& data, const config::Split& split) {
  if (!data.classes.empty()) return data.classes;
  std::vector<std::string> names = find_class_names(data, split);
  for (const std::string& name : names) {
    if (is_line_of_text(name)) continue;
    throw DataError(
        split.path.empty() ? split.glob : split.path,
        concat(data.format == config::DataFormat::kCsv || holds_shards(data) ? "the label '"
                                                                             : "the folder '",
               escaped(name),
               "' names a class, but its name is not UTF-8 without control "
               "characters; rename it"));
  }
  return names;
}

ImageList list_images(const config::Data& data, const config::Split& split,
                      const std::vector<std::string>& classes) {
  if (data.format == config::DataFormat::kCsv) return list_csv(data, split, classes);
  if (holds_shards(data)) return list_shards(data, split, classes);
  return split.glob.empty() ? list_folder(split, classes) : list_glob(split, classes);
}

void check_files_exist(const ImageList& list) {
  for (std::size_t i = 0; i < list.lines.size(); ++i) {
    std::error_code error;
    if (fs::exists(list.files[i].path, error)) continue;
    throw DataError(concat(list.source, ':', list.lines[i]),
                    concat("there is no file ", list.files[i].path,
                           "; paths in a csv count from its own folder, or from data.csv.root"));
  }
}

void draw_files(ImageList& list, std::int64_t count, std::uint64_t seed) {
  if (count >= static_cast<std::int64_t>(list.files.size())) return;
  std::map<std::int32_t, std::vector<std::size_t>> by_class;
  for (std::size_t i = 0; i < list.files.size(); ++i) by_class[list.files[i].label].push_back(i);
  // Each class is shuffled and spread evenly over (0, 1), but for its first file, which comes
  // before all others; the files up to some place on that line are taken.
  std::vector<std::pair<double, std::size_t>> places;
  for (auto& [label, files] : by_class) {
    // Counters of their own: those of label -1 divide training from validation.
    Random random(seed, Stream::kSplit, static_cast<std::uint64_t>(label) + 1);
    for (std::size_t i = 0; i < files.size(); ++i) {
      std::swap(files[i], files[i + random.below(files.size() - i)]);
      const double place = (static_cast<double>(i) + 0.5) / static_cast<double>(files.size());
      places.emplace_back(i == 0 ? 0 : place, files[i]);
    }
  }
  std::sort(places.begin(), places.end());
  std::vector<std::size_t> kept;
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    kept.push_back(places[i].second);
  }
  std::sort(kept.begin(), kept.end());
  std::vector<ListedFile> files;
  for (const std::size_t i : kept) files.push_back(std::move(list.files[i]));
  list.files = std::move(files);
  list.lines.clear();
}

}  // namespace trainer::data
