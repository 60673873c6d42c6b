#include "data/images/listing/folders.h"

#include <sys/stat.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/files/glob.h"
#include "base/text.h"
#include "data/class_names.h"
#include "data/decode/image_file.h"
#include "data/images/listing/zip_folder.h"

namespace trainer::data {
namespace {

namespace fs = std::filesystem;

// Returns whether a name is that of a folder that macOS, NAS systems or Windows create. @eaDir
// contains thumbnails of the images beside it.
bool is_system_name(const std::string& name) {
  static const std::set<std::string> kNames{
      "__MACOSX",  "@eaDir", "#recycle", "@Recycle", "$RECYCLE.BIN", "System Volume Information",
      "lost+found"};
  return kNames.contains(name);
}

}  // namespace

bool is_hidden_name(const std::string& name) {
  return name.starts_with('.') || is_system_name(name);
}

bool has_image_ending(const fs::path& path) {
  static const std::set<std::string> kEndings{
      ".jpg", ".jpeg", ".jpe", ".jfif", ".mpo",  ".png", ".bmp",  ".gif",  ".tga",  ".psd", ".ppm",
      ".pgm", ".pbm",  ".pfm", ".pnm",  ".webp", ".tif", ".tiff", ".heic", ".avif", ".dcm"};
  return kEndings.contains(to_lower(path.extension().string()));
}

namespace {

bool hidden(const fs::path& path) { return is_hidden_name(path.filename().string()); }

// Returns whether a file is an image by its name, or else by its first bytes.
bool is_image(const fs::path& path) {
  if (has_image_ending(path)) return true;
  try {
    return begins_like_image(read_file_start(path, 12));
  } catch (const DataError&) {
    return false;
  }
}

void check_folder(const fs::path& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) return;
  throw DataError(path.string(), fs::exists(path, error)
                                     ? "is not a folder; format image_folder needs one folder per "
                                       "class"
                                     : "no such folder");
}

// Counts entries that are named like images but are not files that could be read.
struct NoFiles {
  std::int64_t count = 0;
  std::string example;  // the first of them, and what it is

  void add(const fs::path& path, const char* what) {
    const std::string text = concat(path.string(), " (", what, ')');
    if (count++ == 0 || text < example) example = text;
  }
};

const char* describe_entry(const fs::directory_entry& entry) {
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
      return is_link ? "a link to nothing" : "not a file";
  }
}

// The entries that a walk leaves aside.
struct LeftAside {
  NoFiles no_files;
  std::int64_t folder_links = 0;
  std::string example;  // the first link by name

  void add_folder_link(const fs::path& path) {
    if (folder_links++ == 0 || path.string() < example) example = path.string();
  }
};

// Identifies a folder, whatever the path that leads to it.
using FolderId = std::pair<dev_t, ino_t>;
FolderId find_id(const fs::path& folder) {
  struct stat info {};
  if (::stat(folder.c_str(), &info) != 0) return {};
  return {info.st_dev, info.st_ino};
}

// States whether a walk follows links to folders. Below the folder of a class such a link would add
// images of another place. A glob states which folders it takes.
enum class FolderLinks { kSkip, kFollow };

// Calls use(path) for every file below `folder` that is not hidden, in no order. `folder` itself
// may be a link. Links are not followed into a folder that is being walked already (`outer`).
template <class Use>
void walk(const fs::path& folder, FolderLinks links, const Use& use, LeftAside& left,
          std::vector<FolderId> outer = {}) {
  outer.push_back(find_id(folder));
  std::error_code error;
  fs::directory_iterator it(folder, error);
  for (; !error && it != fs::directory_iterator(); it.increment(error)) {
    if (hidden(it->path())) continue;
    std::error_code of_entry;
    if (it->is_directory(of_entry)) {
      if (links == FolderLinks::kSkip && it->is_symlink(of_entry)) {
        left.add_folder_link(it->path());
      } else if (std::ranges::find(outer, find_id(it->path())) == outer.end()) {
        walk(it->path(), links, use, left, outer);
      }
    } else if (it->is_regular_file(of_entry)) {
      use(it->path());
    } else if (has_image_ending(it->path())) {
      left.no_files.add(it->path(), describe_entry(*it));
    }
  }
  if (error) throw DataError(folder.string(), error.message());
}

// Returns the line on links to folders; "" if there are none.
std::string folder_links_note(const std::string& source, const LeftAside& left) {
  if (left.folder_links == 0) return "";
  return concat(source, ": ", left.folder_links,
                left.folder_links == 1 ? " link to a folder is" : " links to folders are",
                " not followed, e.g. ", left.example,
                "; put the images there, or make the folder of a class the link");
}

// Returns the line on entries that are left aside; "" if there are none.
std::string left_aside(const std::string& source, const NoFiles& no_files) {
  if (no_files.count == 0) return "";
  return concat(source, ": ", no_files.count,
                no_files.count == 1 ? " name of an image is" : " names of images are",
                " left aside, not being files, e.g. ", no_files.example);
}

void note_left_aside(ImageList& list, const std::string& source, const LeftAside& left) {
  list.note_left_aside(left_aside(source, left.no_files));
  list.note_left_aside(folder_links_note(source, left));
}

// Returns the files that a glob matches, sorted. Walks the folder before the first wildcard.
std::vector<std::string> files_of_glob(const config::SplitFiles& split, LeftAside& left) {
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
  walk(base.empty() ? "/" : base, FolderLinks::kFollow, use, left);
  std::ranges::sort(files);
  if (files.empty()) throw DataError(full, "matches no file");
  return files;
}

std::string parent_name(const std::string& path) {
  return fs::path(path).parent_path().filename().string();
}

}  // namespace

std::vector<std::string> sub_folders(const fs::path& path) {
  if (const auto place = find_zip_place(path)) return sub_folders(*place);
  check_folder(path);
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(path)) {
    std::error_code error;
    if (entry.is_directory(error) && !hidden(entry.path())) {
      names.push_back(entry.path().filename().string());
    }
  }
  std::ranges::sort(names);
  return names;
}

namespace {

// Returns whether an image file lies directly in a folder, which may be a link.
bool holds_image_files(const fs::path& folder) {
  std::error_code error, of_entry;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (it->is_regular_file(of_entry) && !hidden(it->path()) && is_image(it->path())) return true;
  }
  return false;
}

}  // namespace

bool holds_images(const fs::path& folder) {
  if (const auto place = find_zip_place(folder)) return holds_images(*place);
  std::vector<fs::path> inner;
  std::error_code error;
  fs::directory_iterator it(folder, error);
  for (; !error && it != fs::directory_iterator(); it.increment(error)) {
    std::error_code of_entry;
    if (hidden(it->path())) continue;
    if (it->is_directory(of_entry)) {
      if (!it->is_symlink(of_entry)) {
        inner.push_back(it->path());
      } else if (holds_image_files(it->path())) {
        return true;  // reported later: such links are not followed
      }
    } else if (it->is_regular_file(of_entry) && is_image(it->path())) {
      return true;
    }
  }
  if (error) throw DataError(folder.string(), error.message());
  return std::ranges::any_of(inner, [](const fs::path& each) { return holds_images(each); });
}

namespace {

// Returns the note on folders from which no image is read; "" if there is none.
std::string folders_without_images(const std::string& folder,
                                   const std::map<std::string, std::int32_t>& labels) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    std::error_code error;
    const std::string name = entry.path().filename().string();
    if (!entry.is_directory(error) || name.starts_with('.')) continue;
    if (labels.contains(name)) continue;
    names.push_back(name);
  }
  if (names.empty()) return "";
  std::ranges::sort(names);
  return concat(folder, ": ", names.size(), names.size() == 1 ? " folder is" : " folders are",
                " not used as classes, without images or made by a system: ", join_first(names, 6));
}

}  // namespace

std::string files_without_class(const std::string& folder) {
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    std::error_code error;
    if (entry.is_regular_file(error) && !hidden(entry.path()) && is_image(entry.path())) {
      files.push_back(entry.path().string());
    }
  }
  if (files.empty()) return "";
  return concat(
      folder, ": ", files.size(), files.size() == 1 ? " image file is" : " image files are",
      " left aside, lying in no folder of a class, e.g. ", *std::ranges::min_element(files));
}

ImageList list_folder(const config::SplitFiles& split, const std::vector<std::string>& classes) {
  if (const auto place = find_zip_place(split.path)) return list_folder(*place, classes);
  ImageList result;
  result.source = split.path;
  const std::map<std::string, std::int32_t> labels = map_class_names(classes);
  // By class, its folder, and other folders whose names are the same in another Unicode form.
  std::vector<std::set<fs::path>> folders(classes.size());
  for (const std::string& name : sub_folders(split.path)) {
    const fs::path folder = fs::path(split.path) / name;
    if (const auto found = labels.find(name); found != labels.end()) {
      folders[found->second].insert(folder);
    } else if (holds_images(folder)) {
      throw DataError(folder.string(),
                      concat("is not a class: the classes are ", list_classes(classes),
                             describe_similar_class(name, classes),
                             "; name it in data.classes or move it away"));
    }
  }
  result.note_left_aside(files_without_class(split.path));
  result.note_left_aside(folders_without_images(split.path, labels));
  std::int64_t other = 0;
  std::string example;
  LeftAside left;
  InnerClassFolders inner(classes, labels);
  for (std::size_t label = 0; label < classes.size(); ++label) {
    const fs::path own_folder = fs::path(split.path) / classes[label];
    // Some file systems find a folder by each Unicode form of its name.
    if (folders[label].empty() && fs::exists(own_folder)) folders[label].insert(own_folder);
    if (folders[label].empty()) {
      result.note_left_aside(concat(split.path, ": has no folder ", classes[label],
                                    "; no image of this class is in this split"));
      continue;
    }
    const std::size_t before = result.files.size();
    const auto use = [&](const fs::path& path) {
      if (is_image(path)) {
        result.files.push_back({path.string(), static_cast<std::int32_t>(label)});
      } else if (other++ == 0) {
        example = path.string();
      }
    };
    for (const fs::path& folder : folders[label]) {
      check_folder(folder);
      const std::size_t first = result.files.size(), prefix = (folder / "").string().size();
      walk(folder, FolderLinks::kSkip, use, left);
      for (std::size_t i = first; i < result.files.size(); ++i) {
        inner.add(static_cast<std::int32_t>(label),
                  std::string_view(result.files[i].path).substr(prefix));
      }
    }
    if (result.files.size() == before) {
      result.note_left_aside(concat(folders[label].begin()->string(),
                                    ": contains no images; no image of this class is in this "
                                    "split"));
    }
    std::sort(result.files.begin() + before, result.files.end(),
              [](const ListedFile& a, const ListedFile& b) { return a.path < b.path; });
  }
  if (result.files.empty()) {
    throw DataError(split.path, concat("has no folder of a class with images; the classes are ",
                                       list_classes(classes)));
  }
  note_left_aside(result, split.path, left);
  result.note_left_aside(inner.describe(split.path));
  if (other > 0) {
    result.notes.push_back(concat(split.path, ": ", other, other == 1 ? " file is" : " files are",
                                  " left aside, not being images, e.g. ", example));
  }
  return result;
}

ImageList list_glob(const config::SplitFiles& split, const std::vector<std::string>& classes) {
  ImageList result;
  result.source = split.glob;
  LeftAside left;
  const std::map<std::string, std::int32_t> labels = map_class_names(classes);
  for (const std::string& path : files_of_glob(split, left)) {
    const std::string name = parent_name(path);
    const auto found = labels.find(name);
    if (found == labels.end()) {
      throw DataError(path, concat("its folder '", name, "' is not a class; the classes are ",
                                   list_classes(classes), describe_similar_class(name, classes)));
    }
    result.files.push_back({path, found->second});
  }
  note_left_aside(result, split.glob, left);
  return result;
}

std::vector<std::string> glob_files(const config::SplitFiles& split) {
  LeftAside left;
  return files_of_glob(split, left);
}

std::vector<std::string> glob_classes(const config::SplitFiles& split) {
  std::set<std::string> names;
  for (const std::string& path : glob_files(split)) names.insert(parent_name(path));
  return {names.begin(), names.end()};
}

std::vector<std::string> images_below(const std::string& folder, std::string* note) {
  std::vector<std::string> files;
  LeftAside left;
  const auto use = [&](const fs::path& path) {
    if (is_image(path)) files.push_back(path.string());
  };
  walk(folder, FolderLinks::kSkip, use, left);
  std::ranges::sort(files);
  if (note != nullptr) *note = folder_links_note(folder, left);
  return files;
}

}  // namespace trainer::data
