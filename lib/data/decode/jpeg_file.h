// JPEG files: plain ones by our own decoder, the others and all that are damaged by libjpeg.
#pragma once

#include <memory>
#include <string>

#include "data/decode/image_info.h"
#include "data/decode/pixels.h"
#include "data/jpeg/header.h"

namespace trainer::data {

class LibjpegDecoder;

// A JPEG whose header has been read. Refers to the bytes that it was made of.
class JpegFile {
 public:
  // Throws DataError.
  JpegFile(EncodedBytes file, const std::string& path);
  JpegFile(JpegFile&&) noexcept;
  JpegFile& operator=(JpegFile&&) noexcept;
  ~JpegFile();

  // Height and width as stored, before turning.
  ImageInfo info() const;
  // Gives 1 channel for a grey file or when `channels` is 1 and the file holds YCbCr or RGB,
  // else 3. Does not turn the image. Returns libjpeg's warnings that are no damage, "" mostly.
  std::string decode(int channels, int reduce, Pixels& out);

 private:
  EncodedBytes file_;
  std::string path_;
  jpeg::Header plain_;
  std::unique_ptr<LibjpegDecoder> decoder_;  // null for a plain file
};

// Decodes by libjpeg alone, which defines what is right: pixels, warnings and errors.
std::string decode_with_libjpeg(EncodedBytes file, const std::string& path, int channels,
                                int reduce, Pixels& out);

}  // namespace trainer::data
