// Reads JPEG files: plain files with data/jpeg, other and damaged files with libjpeg.
#pragma once

#include <memory>
#include <string>

#include "data/decode/image_info.h"
#include "data/decode/pixels.h"
#include "data/jpeg/header.h"

namespace trainer::data {

class LibjpegDecoder;

// A JPEG file whose header has been read. The bytes of the file must outlive it.
class JpegFile {
 public:
  // Throws DataError.
  JpegFile(EncodedBytes file, const std::string& path);
  JpegFile(JpegFile&&) noexcept;
  JpegFile& operator=(JpegFile&&) noexcept;
  ~JpegFile();

  // Height and width are those before rotation.
  ImageInfo info() const;
  // Decodes to 1 channel if the file is grey, or if `channels` is 1 and the file is YCbCr or RGB;
  // otherwise to 3. Does not rotate the image. Returns the first warning of libjpeg that does not
  // mean damage, "" for none. Throws DataError.
  std::string decode(int channels, int reduce, Pixels& out);

 private:
  EncodedBytes file_;
  std::string path_;
  jpeg::Header plain_;
  std::unique_ptr<LibjpegDecoder> decoder_;  // null for a plain file
};

// Decodes with libjpeg alone, which defines the right pixels, warnings and errors.
std::string decode_with_libjpeg(EncodedBytes file, const std::string& path, int channels,
                                int reduce, Pixels& out);

}  // namespace trainer::data
