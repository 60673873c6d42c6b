#include "data/images/listing/zip_folder.h"

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>

#include "base/error.h"
#include "base/files/random_access_file.h"
#include "base/formats/zip.h"
#include "base/text.h"
#include "data/split_folders.h"

namespace trainer::data {
namespace {

namespace fs = std::filesystem;

// Throws for a name that leads out of the folder of an archive. Nothing is unpacked, so that such a
// name does no harm, but it shows that the archive is not what the user believes.
void check_entry_name(const std::string& archive, const std::string& name,
                      const std::vector<std::string>& parts) {
  const bool leads_out = name.starts_with('/') || std::ranges::find(parts, "..") != parts.end() ||
                         (name.size() > 1 && name[1] == ':');
  if (!leads_out && name.find('\0') == std::string::npos) return;
  throw DataError(archive, "contains the entry '", escaped(name),
                  "', whose name leads out of the archive; pack the images again, with "
                  "names such as cats/1.jpg");
}

bool is_hidden_entry(const std::vector<std::string>& parts) {
  return std::ranges::any_of(parts, [](const std::string& part) { return is_hidden_name(part); });
}

// Returns the items below a folder, of items sorted by what `name` returns.
template <class Item, class Name>
std::span<const Item> find_below(const std::vector<Item>& items, const std::string& folder,
                                 Name name) {
  const std::string prefix = folder.empty() ? "" : folder + '/';
  const auto first = std::ranges::lower_bound(items, prefix, {}, name);
  const auto last = std::find_if_not(first, items.end(), [&](const Item& item) {
    return std::invoke(name, item).starts_with(prefix);
  });
  return {first, last};
}

// Throws for a name that is too long: all folders that lead to an entry are stored, which takes
// memory by the square of their number. One name of 64 KB with 32,000 folders would take 1 GB.
void check_entry_length(const std::string& archive, const std::string& name) {
  constexpr std::size_t kMaxBytes = 4096;  // of a path on Linux
  constexpr std::ptrdiff_t kMaxDepth = 128;
  const std::ptrdiff_t folders = std::ranges::count(name, '/');
  if (name.size() <= kMaxBytes && folders <= kMaxDepth) return;
  throw DataError(archive, "contains the entry '", printable(name.substr(0, 40)),
                  "...', whose name is too long: ", name.size(), " bytes (at most ", kMaxBytes,
                  ") and ", folders, " folders (at most ", kMaxDepth, "); pack the images again");
}

// The names of an archive and the places of its images.
class ZipContents {
 public:
  explicit ZipContents(const Path& path) {
    const std::string source = path.string();
    const RandomAccessFile file(path);
    if (file.size() == 0) throw DataError(source, "is empty; expected a zip archive");
    for (const ZipMember& member : zip_members(file, source)) add(source, member);
    std::ranges::sort(others_);
    std::ranges::sort(images_, {}, &ListedFile::name);
    const auto twice = std::ranges::adjacent_find(
        images_, [](const ListedFile& a, const ListedFile& b) { return a.name == b.name; });
    if (twice == images_.end()) return;
    throw DataError(source, "contains the entry ", printable(twice->name),
                    " twice; pack the images again");
  }

  // Return the images and the names of other files below a folder, sorted by name.
  std::span<const ListedFile> images(const std::string& folder) const {
    return find_below(images_, folder, &ListedFile::name);
  }
  std::span<const std::string> others(const std::string& folder) const {
    return find_below(others_, folder, std::identity());
  }

  // Returns the image of this name; null if there is none.
  const ListedFile* find(const std::string& name) const {
    const auto found = std::ranges::lower_bound(images_, name, {}, &ListedFile::name);
    return found != images_.end() && found->name == name ? &*found : nullptr;
  }

  // Returns the names of the folders in a folder, sorted.
  std::vector<std::string> sub_folders(const std::string& folder) const {
    const auto found = folders_.find(folder);
    if (found == folders_.end()) return {};
    return {found->second.begin(), found->second.end()};
  }

  bool has_folder(const std::string& folder) const {
    return folder.empty() || folders_.contains(folder);
  }

 private:
  void add(const std::string& source, const ZipMember& member) {
    std::string name = member.name;
    std::ranges::replace(name, '\\', '/');  // written by some programs of Windows
    check_entry_length(source, name);
    while (name.starts_with("./")) name.erase(0, 2);
    const std::vector<std::string> parts = split_text(name, '/');
    check_entry_name(source, name, parts);
    if (name.empty() || is_hidden_entry(parts)) return;
    std::string parent;
    for (std::size_t slash = name.find('/'); slash != std::string::npos;
         slash = name.find('/', slash + 1)) {
      const std::string folder = name.substr(0, slash);
      folders_[parent].insert(folder.substr(parent.empty() ? 0 : parent.size() + 1));
      folders_[folder];
      parent = folder;
    }
    if (name.ends_with('/')) return;
    if (!has_image_ending(name)) {
      others_.push_back(name);
      return;
    }
    check_packing(source, name, member);
    ListedFile file{source};
    file.offset = static_cast<std::int64_t>(member.data);
    file.bytes = static_cast<std::int64_t>(member.packed);
    file.zip = ZipPacking{member.method == kZipDeflated, static_cast<std::int64_t>(member.size),
                          member.crc};
    file.name = std::move(name);
    images_.push_back(std::move(file));
  }

  static void check_packing(const std::string& source, const std::string& name,
                            const ZipMember& member) {
    if (member.is_encrypted()) {
      throw DataError(concat(source, ": ", printable(name)),
                      "is encrypted; unpack the archive with its password and give the folder as "
                      "data.path");
    }
    if (member.method == kZipStored || member.method == kZipDeflated) return;
    throw DataError(concat(source, ": ", printable(name)), "is compressed with zip method ",
                    member.method,
                    "; only stored and deflated entries can be read: unpack the archive, "
                    "or pack it again with zip -0");
  }

  std::vector<ListedFile> images_;                        // sorted by name
  std::vector<std::string> others_;                       // sorted
  std::map<std::string, std::set<std::string>> folders_;  // by folder, the names of those in it
};

// Reads an archive, or returns what was read before if the file has not changed since: a listing
// asks for each of its folders.
std::shared_ptr<const ZipContents> open_zip(const Path& path) {
  struct Known {
    std::uintmax_t size = 0;
    fs::file_time_type time;
    std::shared_ptr<const ZipContents> contents;
  };
  static std::mutex mutex;
  static std::map<std::string, Known> known;
  constexpr std::size_t kMaxArchives = 4;
  std::error_code error;
  const auto size = fs::file_size(path, error);
  const auto time = fs::last_write_time(path, error);
  const std::lock_guard lock(mutex);
  const std::string key = fs::absolute(path).string() + '\n' + path.string();
  if (const auto found = known.find(key);
      found != known.end() && found->second.size == size && found->second.time == time) {
    return found->second.contents;
  }
  auto contents = std::make_shared<const ZipContents>(path);
  if (known.size() >= kMaxArchives) known.clear();
  known[key] = {size, time, contents};
  return contents;
}

// Throws DataError if the archive does not have the folder.
std::shared_ptr<const ZipContents> open_zip_with_folder(const ZipPlace& place) {
  auto zip = open_zip(place.archive);
  if (zip->has_folder(place.folder)) return zip;
  throw DataError(place.archive.string(), "has no folder '", printable(place.folder),
                  "'; its folders are ", printable(join_first(zip->sub_folders(""), 6)));
}

std::string join_names(const std::string& folder, const std::string& name) {
  return folder.empty() ? name : concat(folder, '/', name);
}

// Returns whether a file lies directly in a folder.
bool lies_in(const std::string& name, const std::string& folder) {
  const std::size_t start = folder.empty() ? 0 : folder.size() + 1;
  return name.find('/', start) == std::string::npos;
}

}  // namespace

std::optional<ZipPlace> find_zip_place(const Path& path) {
  // Most paths need no look at the file system.
  if (to_lower(path.string()).find(".zip") == std::string::npos) return std::nullopt;
  std::error_code error;
  if (fs::is_directory(path, error)) return std::nullopt;
  Path archive, inner;
  for (const Path& part : path) {
    if (!inner.empty() || fs::is_regular_file(archive, error)) {
      inner /= part;
      continue;
    }
    archive /= part;
  }
  if (!fs::is_regular_file(archive, error)) return std::nullopt;
  if (to_lower(archive.extension().string()) != ".zip") return std::nullopt;
  std::string folder = inner.lexically_normal().string();
  while (folder.ends_with('/')) folder.pop_back();
  return ZipPlace{archive, folder == "." ? "" : folder};
}

std::string describe(const ZipPlace& place) {
  return place.folder.empty() ? place.archive.string()
                              : concat(place.archive.string(), ": ", place.folder);
}

bool has_folder(const ZipPlace& place) { return open_zip(place.archive)->has_folder(place.folder); }

std::string find_zip_root(const std::string& path, OnlyFolder only) {
  const std::optional<ZipPlace> place = find_zip_place(path);
  if (!place) return path;
  const auto zip = open_zip(place->archive);
  std::string folder = place->folder;
  for (;;) {
    const std::vector<std::string> names = zip->sub_folders(folder);
    if (names.size() != 1) break;
    const std::string inner = join_names(folder, names[0]);
    const auto images = zip->images(folder);
    const bool has_class_folders = !zip->sub_folders(inner).empty();
    const bool has_loose_images = std::ranges::any_of(
        images, [&](const ListedFile& file) { return lies_in(file.name, folder); });
    if (!has_class_folders || has_loose_images) break;
    if (only == OnlyFolder::kKeepSplit && find_split_in_name(names[0])) break;
    folder = inner;
  }
  return folder.empty() ? place->archive.string() : (place->archive / folder).string();
}

std::vector<std::string> sub_folders(const ZipPlace& place) {
  return open_zip_with_folder(place)->sub_folders(place.folder);
}

bool holds_images(const ZipPlace& place) {
  return !open_zip(place.archive)->images(place.folder).empty();
}

PathCount find_loose_images(const ZipPlace& place) {
  const auto zip = open_zip_with_folder(place);
  PathCount images;
  for (const ListedFile& file : zip->images(place.folder)) {
    if (lies_in(file.name, place.folder)) images.add(file.name);
  }
  return images;
}

FolderContents list_below(const ZipPlace& place) {
  const auto zip = open_zip_with_folder(place);
  const auto images = zip->images(place.folder);
  FolderContents contents;
  contents.images = {images.begin(), images.end()};
  contents.prefix = place.folder.empty() ? 0 : place.folder.size() + 1;
  for (const std::string& name : zip->others(place.folder)) contents.others.add(name);
  return contents;
}

bool has_image(const ZipPlace& place) {
  return open_zip(place.archive)->find(place.folder) != nullptr;
}

ListedFile find_image(const Path& path) {
  const std::optional<ZipPlace> place = find_zip_place(path);
  if (!place) return {path.string()};
  const auto zip = open_zip(place->archive);
  if (const ListedFile* found = zip->find(place->folder)) return *found;
  throw DataError(place->archive.string(), "does not contain the image ", printable(place->folder));
}

}  // namespace trainer::data
