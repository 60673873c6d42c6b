// Reads TIFF files with libtiff.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/decode/image_info.h"
#include "data/decode/level_table.h"
#include "data/decode/pixels.h"

namespace trainer::data {

struct TiffSource;

// The first image of a TIFF file whose directory has been read. The bytes of the file must outlive
// it.
class TiffFile {
 public:
  // Throws DataError, also for unsupported samples: signed or floating-point numbers, CMYK of
  // 16 bits.
  TiffFile(EncodedBytes file, const std::string& path);
  TiffFile(TiffFile&&) noexcept;
  TiffFile& operator=(TiffFile&&) noexcept;
  ~TiffFile();
  // Height and width are those before rotation.
  const ImageInfo& info() const { return info_; }
  // Decodes 1, 8 or 16 bits, converted to 8: grey, a palette, RGB, YCbCr or CMYK. Colours are
  // divided by alpha if they were multiplied by it, and alpha is dropped. If `channels` is neither
  // 1 nor 3, the file must have as many bands, which are read without a conversion. `levels` gives
  // the bytes of 16-bit values; null: their upper bytes. Returns the first warning of libtiff, or
  // else the number of images if there are several, "" for none. Throws DataError.
  std::string decode(int channels, int reduce, Pixels& out, const LevelTable* levels);
  // Returns the largest 16-bit value of the bands that decode() reads. Throws DataError.
  int find_max_value(int channels);

 private:
  void check_bands(int channels) const;
  // Returns the values of all bands, [height, width, bands].
  std::vector<std::uint16_t> read_values();
  void decode_bands(const LevelTable* levels, Pixels& out);
  void decode_levels(const LevelTable& levels, Pixels& out);
  // Throws DataError for a kind of image that libtiff cannot convert.
  void check_kind() const;
  void decode_cmyk(Pixels& out);
  void decode_raster(Pixels& out);
  [[noreturn]] void fail_damaged() const;

  std::string path_;
  ImageInfo info_;
  int bands_ = 1, bits_ = 8;  // bands per pixel, bits per sample
  bool has_alpha_ = false;    // the last band of a grey or an RGB image
  bool is_cmyk_ = false;
  bool is_direct_ = false;  // grey or RGB: the bands are not converted
  std::unique_ptr<TiffSource> source_;
};

}  // namespace trainer::data
