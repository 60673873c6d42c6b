// Image files in class folders of a zip archive, which is read without unpacking it. An entry is a
// range of bytes of the archive, like an image in a tar shard, so that threads read entries
// independently and share no handle of a library.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/files/files.h"
#include "data/images/listing/folders.h"

namespace trainer::data {

// A folder in an archive; "" for its top.
struct ZipPlace {
  Path archive;
  std::string folder;
};

// Divides a path such as photos.zip/train at the first file whose name ends in .zip. Returns
// nullopt if there is none, and for a folder of the file system. An archive is recognized by its
// name, so that paths to plain files cost no look at the disk.
std::optional<ZipPlace> find_zip_place(const Path& path);

// Returns the folder with the class folders or split folders of an archive: the top, or its only
// folder if no images lie beside it. `keep_split` keeps a top whose only folder is named like a
// split. Returns paths that do not lead to an archive unchanged.
enum class OnlyFolder { kEnter, kKeepSplit };
std::string find_zip_root(const std::string& path, OnlyFolder only);

// Returns "photos.zip: train".
std::string describe(const ZipPlace& place);

// The functions below throw DataError for an archive that is damaged, and name the entry that is
// encrypted, compressed in an unknown way, or named with `..`.
bool has_folder(const ZipPlace& place);
// Returns whether place.folder is the name of an image.
bool has_image(const ZipPlace& place);
// These do what the functions of their names in folders.h do, for a folder in an archive.
std::vector<std::string> sub_folders(const ZipPlace& place);
bool holds_images(const ZipPlace& place);
FolderContents list_below(const ZipPlace& place);
PathCount find_loose_images(const ZipPlace& place);
// Returns the image that a path leads to, in an archive or a file of its own. Throws DataError if
// the archive does not contain it.
ListedFile find_image(const Path& path);

}  // namespace trainer::data
