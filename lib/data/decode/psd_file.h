// Photoshop documents: the flattened image.
// https://www.adobe.com/devnet-apps/photoshop/fileformatashtml/
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "data/decode/image_info.h"
#include "data/decode/pixels.h"

namespace trainer::data {

// An RGB document of 8 or 16 bits whose header has been read. Refers to the bytes that it was made
// of.
class PsdFile {
 public:
  // Throws DataError.
  PsdFile(EncodedBytes file, const std::string& path);
  const ImageInfo& info() const { return info_; }
  // Throws DataError.
  std::string decode(int channels, int reduce, Pixels& out) const;

 private:
  EncodedBytes file_;
  std::string path_;
  ImageInfo info_;
  std::size_t number_bytes_ = 1, planes_ = 3;  // planes that are stored
  bool packed_ = false;
  std::size_t planes_at_ = 0;  // where they begin
};

}  // namespace trainer::data
