// Images below folders, whose names are the classes, and of globs.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "data/images/listing/image_list.h"

namespace trainer::data {

// Returns whether a file has the name of an image.
bool has_image_ending(const std::filesystem::path& path);
// Returns whether the name of a file or folder is hidden, or one that systems make for themselves.
bool is_hidden_name(const std::string& name);
// Returns the names of the folders in a folder, sorted. Hidden folders and those that systems make
// for themselves (__MACOSX, @eaDir) are left out. Throws DataError if `path` is not a folder.
// A path may lead into a zip archive (see zip_folder.h), as for holds_images() and list_folder().
std::vector<std::string> sub_folders(const std::filesystem::path& path);
// Returns whether a folder contains an image file at any depth.
bool holds_images(const std::filesystem::path& folder);
// Returns the line on image files beside the folders of the classes, which have no class; "" for
// none.
std::string files_without_class(const std::string& folder);
// Lists the images below the folders of the classes, class by class and sorted by path. Throws
// DataError for a folder with images that is not a class.
ImageList list_folder(const config::SplitFiles& split, const std::vector<std::string>& classes);

// Returns the files that a glob matches, sorted. Throws DataError if there are none.
std::vector<std::string> glob_files(const config::SplitFiles& split);
// Returns the names of the folders of these files.
std::vector<std::string> glob_classes(const config::SplitFiles& split);
// Lists these files, each with the class of its folder. Throws DataError for an unknown class.
ImageList list_glob(const config::SplitFiles& split, const std::vector<std::string>& classes);

}  // namespace trainer::data
