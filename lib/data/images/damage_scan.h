// Which files of a list cannot be read.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/files.h"
#include "data/images/image_reader.h"
#include "data/images/listing/image_list.h"
#include "data/images/readable_files.h"

namespace trainer::data {

// Decodes the files of a list to find the damaged ones. Those found readable are stored in
// `cache_dir` if `access` allows it, so that the next start need not decode them again.
class DamageScan {
 public:
  DamageScan(std::shared_ptr<const ImageList> list, const ImageReader& reader,
             ImageReader::Scale scale, const Path& cache_dir, config::FolderAccess access);

  // Why each of these files cannot be read, "" when it can. Uses all cores.
  std::vector<std::string> find(const std::vector<std::int64_t>& indices);
  // What was stored was wrong: a file that was found readable is not. Any thread.
  void forget() const noexcept;

 private:
  std::shared_ptr<const ImageList> list_;
  ImageReader reader_;
  ImageReader::Scale scale_;
  Path cache_dir_;
  config::FolderAccess access_;
  std::unique_ptr<ReadableFiles> readable_;  // since the first find()
};

}  // namespace trainer::data
