// Finds the files of a list that cannot be read.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/files/files.h"
#include "data/images/image_reader.h"
#include "data/images/listing/image_list.h"
#include "data/images/readable_files.h"

namespace trainer::data {

// Decodes the files of a list to find the damaged ones. Readable files are recorded in `cache_dir`
// if `access` allows it, so that the next start need not decode them again.
class DamageScan {
 public:
  DamageScan(std::shared_ptr<const ImageList> list, const ImageReader& reader,
             ImageReader::Scale scale, const Path& cache_dir, config::FolderAccess access);

  // Returns the reason why each of these files cannot be read, "" if it can. Uses all cores.
  std::vector<std::string> find(const std::vector<std::int64_t>& indices);
  // Removes the record, because a file in it turned out to be unreadable. Thread-safe.
  void forget() const noexcept;

 private:
  std::shared_ptr<const ImageList> list_;
  ImageReader reader_;
  ImageReader::Scale scale_;
  Path cache_dir_;
  config::FolderAccess access_;
  std::unique_ptr<ReadableFiles> readable_;  // null before the first find()
};

}  // namespace trainer::data
