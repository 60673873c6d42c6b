#include "data/images/listing/folders.h"

#include <sys/stat.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

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
void walk(const fs::path& folder, FolderLinks links, const Use& use, FolderContents& contents,
          std::vector<FolderId> outer = {}) {
  outer.push_back(find_id(folder));
  std::error_code error;
  fs::directory_iterator it(folder, error);
  for (; !error && it != fs::directory_iterator(); it.increment(error)) {
    if (hidden(it->path())) continue;
    std::error_code of_entry;
    if (it->is_directory(of_entry)) {
      if (links == FolderLinks::kSkip && it->is_symlink(of_entry)) {
        contents.folder_links.add(it->path().string());
      } else if (std::ranges::find(outer, find_id(it->path())) == outer.end()) {
        walk(it->path(), links, use, contents, outer);
      }
    } else if (it->is_regular_file(of_entry)) {
      use(it->path());
    } else if (has_image_ending(it->path())) {
      contents.not_files.add(concat(it->path().string(), " (", describe_entry(*it), ')'));
    }
  }
  if (error) throw DataError(folder.string(), error.message());
}

// Returns "SOURCE: 2 files are ..., e.g. FIRST"; "" if there are none.
std::string describe_paths(const std::string& source, const PathCount& paths, const char* one,
                           const char* several) {
  if (paths.count == 0) return "";
  return concat(source, ": ", paths.count, paths.count == 1 ? one : several, ", e.g. ",
                paths.first);
}

void note_left_aside(ImageList& list, const std::string& source, const FolderContents& contents) {
  list.note_left_aside(describe_paths(
      source, contents.not_files,
      " entry is left aside, because it is named like an image but is not a file",
      " entries are left aside, because they are named like images but are not files"));
  list.note_left_aside(describe_folder_links(source, contents));
}

// Returns the files that a glob matches, sorted. Walks the folder before the first wildcard.
std::vector<std::string> files_of_glob(const config::SplitFiles& split, FolderContents& contents) {
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
  walk(base.empty() ? "/" : base, FolderLinks::kFollow, use, contents);
  std::ranges::sort(files);
  if (files.empty()) throw DataError(full, "matches no file");
  return files;
}

std::string parent_name(const std::string& path) {
  return fs::path(path).parent_path().filename().string();
}

// Returns the result of sub_folders() and the folders that systems make for themselves.
std::vector<std::string> list_folders(const fs::path& path) {
  if (const auto place = find_zip_place(path)) return sub_folders(*place);
  check_folder(path);
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(path)) {
    std::error_code error;
    std::string name = entry.path().filename().string();
    if (entry.is_directory(error) && !name.starts_with('.')) names.push_back(std::move(name));
  }
  std::ranges::sort(names);
  return names;
}

// Returns whether an image file lies directly in a folder, which may be a link.
bool holds_image_files(const fs::path& folder) {
  std::error_code error, of_entry;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (it->is_regular_file(of_entry) && !hidden(it->path()) && is_image(it->path())) return true;
  }
  return false;
}

std::string describe_place(const fs::path& path) {
  const auto place = find_zip_place(path);
  return place ? describe(*place) : path.string();
}

// The folders of each class: one, and others whose names are the same in another Unicode form.
using ClassFolders = std::vector<std::set<fs::path>>;

// Adds a note on the other folders. Throws DataError for a folder with images that is not a
// class.
ClassFolders divide_into_classes(const fs::path& root, const std::vector<std::string>& classes,
                                 const std::map<std::string, std::int32_t>& labels,
                                 ImageList& list) {
  ClassFolders folders(classes.size());
  std::vector<std::string> unused;
  for (const std::string& name : list_folders(root)) {
    if (const auto found = labels.find(name); found != labels.end() && !is_system_name(name)) {
      folders[found->second].insert(root / name);
    } else if (is_system_name(name) || !holds_images(root / name)) {
      unused.push_back(name);
    } else {
      throw DataError(describe_place(root / name), "is not a class: the classes are ",
                      list_classes(classes), describe_similar_class(name, classes),
                      "; name it in data.classes or move it elsewhere");
    }
  }
  for (std::size_t label = 0; label < classes.size(); ++label) {
    // Some file systems find a folder by each Unicode form of its name.
    const fs::path folder = root / classes[label];
    if (folders[label].empty() && fs::exists(folder)) folders[label].insert(folder);
  }
  if (!unused.empty()) {
    list.note_left_aside(
        concat(list.source, ": ", unused.size(),
               unused.size() == 1 ? " folder is not used as a class, because it contains no images "
                                    "or was made by a system: "
                                  : " folders are not used as classes, because they contain no "
                                    "images or were made by a system: ",
               join_first(unused, 6)));
  }
  return folders;
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

std::vector<std::string> sub_folders(const fs::path& path) {
  std::vector<std::string> names = list_folders(path);
  std::erase_if(names, is_system_name);
  return names;
}

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

PathCount find_loose_images(const fs::path& folder) {
  if (const auto place = find_zip_place(folder)) return find_loose_images(*place);
  check_folder(folder);
  PathCount images;
  for (const auto& entry : fs::directory_iterator(folder)) {
    std::error_code error;
    if (entry.is_regular_file(error) && !hidden(entry.path()) && is_image(entry.path())) {
      images.add(entry.path().string());
    }
  }
  return images;
}

FolderContents list_below(const fs::path& folder, const Progress& progress) {
  if (const auto place = find_zip_place(folder)) return list_below(*place);
  check_folder(folder);
  FolderContents contents;
  contents.prefix = (folder / "").string().size();
  const auto use = [&](const fs::path& path) {
    progress.advance();
    if (is_image(path)) {
      contents.images.push_back({path.string()});
    } else {
      contents.others.add(path.string());
    }
  };
  walk(folder, FolderLinks::kSkip, use, contents);
  std::ranges::sort(contents.images, {}, &ListedFile::path);
  return contents;
}

std::string describe_folder_links(const std::string& source, const FolderContents& contents) {
  const std::string line =
      describe_paths(source, contents.folder_links, " link to a folder is not followed",
                     " links to folders are not followed");
  if (line.empty()) return "";
  return line + "; put the images there, or make the folder of a class the link";
}

ImageList list_folder(const config::SplitFiles& split, const std::vector<std::string>& classes,
                      const Progress& progress) {
  ImageList result;
  result.source = describe_place(split.path);
  result.note_left_aside(
      describe_paths(result.source, find_loose_images(split.path),
                     " image file is left aside, because it lies in no folder of a class",
                     " image files are left aside, because they lie in no folder of a class"));
  const std::map<std::string, std::int32_t> labels = map_class_names(classes);
  const ClassFolders folders = divide_into_classes(split.path, classes, labels, result);
  FolderContents left_aside;
  InnerClassFolders inner(classes, labels);
  for (std::size_t label = 0; label < classes.size(); ++label) {
    const std::size_t before = result.files.size();
    for (const fs::path& folder : folders[label]) {
      FolderContents contents = list_below(folder, progress);
      for (ListedFile& file : contents.images) {
        file.label = static_cast<std::int32_t>(label);
        inner.add(
            file.label,
            std::string_view(file.name.empty() ? file.path : file.name).substr(contents.prefix));
        result.files.push_back(std::move(file));
      }
      left_aside.others.add(contents.others);
      left_aside.not_files.add(contents.not_files);
      left_aside.folder_links.add(contents.folder_links);
    }
    if (folders[label].empty()) {
      result.note_left_aside(concat(result.source, ": has no folder ", classes[label],
                                    "; no image of this class is in this split"));
    } else if (result.files.size() == before) {
      result.note_left_aside(concat(describe_place(*folders[label].begin()),
                                    ": contains no images; no image of this class is in this "
                                    "split"));
    }
  }
  if (result.files.empty()) {
    throw DataError(result.source, "has no folder of a class with images; the classes are ",
                    list_classes(classes));
  }
  note_left_aside(result, result.source, left_aside);
  result.note_left_aside(inner.describe(result.source));
  if (left_aside.others.count > 0) {
    result.notes.push_back(describe_paths(result.source, left_aside.others,
                                          " file is left aside, because it is not an image",
                                          " files are left aside, because they are not images"));
  }
  return result;
}

ImageList list_glob(const config::SplitFiles& split, const std::vector<std::string>& classes) {
  ImageList result;
  result.source = split.glob;
  FolderContents contents;
  const std::map<std::string, std::int32_t> labels = map_class_names(classes);
  for (const std::string& path : files_of_glob(split, contents)) {
    const std::string name = parent_name(path);
    const auto found = labels.find(name);
    if (found == labels.end()) {
      throw DataError(path, "its folder '", name, "' is not a class; the classes are ",
                      list_classes(classes), describe_similar_class(name, classes));
    }
    result.files.push_back({path, found->second});
  }
  note_left_aside(result, split.glob, contents);
  return result;
}

std::vector<std::string> glob_files(const config::SplitFiles& split) {
  FolderContents contents;
  return files_of_glob(split, contents);
}

std::vector<std::string> glob_classes(const config::SplitFiles& split) {
  std::set<std::string> names;
  for (const std::string& path : glob_files(split)) names.insert(parent_name(path));
  return {names.begin(), names.end()};
}

}  // namespace trainer::data
