// Images below folders, whose names are the classes, and of globs.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/process/progress.h"
#include "data/images/listing/image_list.h"

namespace trainer::data {

// Returns whether a file has the name of an image.
bool has_image_ending(const std::filesystem::path& path);
// Returns whether the name of a file or folder is hidden, or one that systems make for themselves.
bool is_hidden_name(const std::string& name);
// Returns the names of the folders in a folder, sorted. Hidden folders and those that systems make
// for themselves (__MACOSX, @eaDir) are left out. Throws DataError if `path` is not a folder.
// A path may lead into a zip archive (see zip_folder.h), as for the functions below.
std::vector<std::string> sub_folders(const std::filesystem::path& path);
// Returns whether a folder contains an image file at any depth.
bool holds_images(const std::filesystem::path& folder);

// Paths of one kind, of which messages name the first.
struct PathCount {
  std::int64_t count = 0;
  std::string first;  // the smallest path

  void add(const std::string& path) { add({1, path}); }
  void add(const PathCount& more) {
    if (more.count > 0 && (count == 0 || more.first < first)) first = more.first;
    count += more.count;
  }
};

// What lies below a folder at any depth.
struct FolderContents {
  std::vector<ListedFile> images;  // sorted by path, of class 0
  // The number of letters that lead to the folder, in ListedFile::path, or, for an archive, in
  // ListedFile::name.
  std::size_t prefix = 0;
  PathCount others;        // files that are not images
  PathCount not_files;     // entries that are named like images, and what they are
  PathCount folder_links;  // links to folders, which are not followed
};
// These throw DataError if there is no such folder. `progress` advances with the files.
FolderContents list_below(const std::filesystem::path& folder, const Progress& progress = {});
PathCount find_loose_images(const std::filesystem::path& folder);  // those directly in the folder
// Returns the line on links to folders; "" if there are none.
std::string describe_folder_links(const std::string& source, const FolderContents& contents);

// Lists the images below the folders of the classes, class by class and sorted by path. Throws
// DataError for a folder with images that is not a class.
ImageList list_folder(const config::SplitFiles& split, const std::vector<std::string>& classes,
                      const Progress& progress = {});

// The functions below take no zip archives.
// Returns the files that a glob matches, sorted. Throws DataError if there are none.
std::vector<std::string> glob_files(const config::SplitFiles& split);
// Returns the names of the folders of these files.
std::vector<std::string> glob_classes(const config::SplitFiles& split);
// Lists these files, each with the class of its folder. Throws DataError for an unknown class.
ImageList list_glob(const config::SplitFiles& split, const std::vector<std::string>& classes);

}  // namespace trainer::data
