// Reads TIFF files with libtiff.
#include <tiffio.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <new>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "data/decode/cmyk.h"
#include "data/decode/decoder.h"

namespace trainer::data {
namespace {

// The bytes of a file and the state of libtiff.
struct TiffSource {
  explicit TiffSource(EncodedBytes bytes) : file(bytes) {}
  ~TiffSource() {
    if (tiff != nullptr) TIFFClose(tiff);
  }
  TiffSource(const TiffSource&) = delete;
  TiffSource& operator=(const TiffSource&) = delete;

  EncodedBytes file;
  toff_t at = 0;
  TIFF* tiff = nullptr;
  std::string error, warning;  // the last error and the first warning
};

TiffSource& self(thandle_t handle) { return *static_cast<TiffSource*>(handle); }

tmsize_t read(thandle_t handle, void* to, tmsize_t wanted) {
  TiffSource& source = self(handle);
  const toff_t size = source.file.size();
  if (source.at >= size || wanted <= 0) return 0;
  const toff_t count = std::min<toff_t>(size - source.at, static_cast<toff_t>(wanted));
  std::memcpy(to, source.file.data() + source.at, count);
  source.at += count;
  return static_cast<tmsize_t>(count);
}
tmsize_t write(thandle_t, void*, tmsize_t) { return 0; }
toff_t seek(thandle_t handle, toff_t offset, int whence) {
  TiffSource& source = self(handle);
  if (whence == SEEK_CUR) offset += source.at;
  if (whence == SEEK_END) offset += source.file.size();
  return source.at = offset;
}
int close(thandle_t) { return 0; }
toff_t size_of(thandle_t handle) { return self(handle).file.size(); }

std::string format_text(const char* format, va_list arguments) {
  char text[256];
  std::vsnprintf(text, sizeof text, format, arguments);
  return text;
}
int on_error(TIFF*, void* source, const char*, const char* format, va_list arguments) {
  static_cast<TiffSource*>(source)->error = format_text(format, arguments);
  return 1;
}
int on_warning(TIFF*, void* source, const char*, const char* format, va_list arguments) {
  std::string& warning = static_cast<TiffSource*>(source)->warning;
  if (warning.empty()) warning = format_text(format, arguments);
  return 1;
}

TIFF* open(TiffSource& source) {
  // The limit of one strip, tile or table, as a small file with a large one would waste memory.
  constexpr std::uint64_t kMinMemory = 64 << 20, kMaxMemory = 1 << 30, kMaxExpansion = 64;
  const auto max_memory =
      static_cast<tmsize_t>(std::clamp(source.file.size() * kMaxExpansion, kMinMemory, kMaxMemory));
  TIFFOpenOptions* options = TIFFOpenOptionsAlloc();
  if (options == nullptr) throw std::bad_alloc();
  TIFFOpenOptionsSetMaxSingleMemAlloc(options, max_memory);
  TIFFOpenOptionsSetErrorHandlerExtR(options, on_error, &source);
  TIFFOpenOptionsSetWarningHandlerExtR(options, on_warning, &source);
  // The flag m disables the mapping of the file, which is in memory already.
  TIFF* tiff = TIFFClientOpenExt("image", "rm", &source, read, write, seek, close, size_of, nullptr,
                                 nullptr, options);
  TIFFOpenOptionsFree(options);
  return tiff;
}

std::uint32_t field(TIFF* tiff, std::uint32_t tag, std::uint32_t otherwise) {
  std::uint16_t value = 0;
  return TIFFGetFieldDefaulted(tiff, tag, &value) != 0 ? value : otherwise;
}

[[noreturn]] void fail(const std::string& path, const TiffSource& source, const std::string& what) {
  throw DataError(path, "TIFF: ", what, source.error.empty() ? "" : ": " + source.error);
}

// Returns the kinds of the samples of a pixel that are not colours. The list may be shorter than
// their number; the kinds of the other samples are unspecified.
std::vector<std::uint16_t> extra_samples(TIFF* tiff) {
  std::uint16_t count = 0;
  std::uint16_t* kinds = nullptr;
  if (TIFFGetField(tiff, TIFFTAG_EXTRASAMPLES, &count, &kinds) == 0) return {};
  return {kinds, kinds + count};
}

// Throws DataError for samples whose numbers libtiff would turn into other pixels.
void check_samples(TIFF* tiff, const std::string& path, std::uint32_t photometric) {
  const auto reject = [&](const std::string& what) { throw DataError(path, "TIFF: ", what); };
  const std::uint32_t bits = field(tiff, TIFFTAG_BITSPERSAMPLE, 1);
  const std::uint32_t format = field(tiff, TIFFTAG_SAMPLEFORMAT, SAMPLEFORMAT_UINT);
  if (format != SAMPLEFORMAT_UINT && format != SAMPLEFORMAT_VOID) {
    reject(concat(
        "has ", bits, "-bit ",
        format == SAMPLEFORMAT_INT      ? "signed"
        : format == SAMPLEFORMAT_IEEEFP ? "floating-point"
                                        : "complex",
        " numbers, which are not supported; convert them to unsigned numbers of 8 or 16 bits"));
  }
  if (photometric == PHOTOMETRIC_SEPARATED && bits != 8) {
    reject(concat("has CMYK colours of ", bits,
                  " bits, which are not supported; convert it to RGB or to 8 bits"));
  }
}

// Divides a colour by the alpha that it was multiplied by, as Pillow does. `max` is white.
std::uint32_t divide_by_alpha(std::uint32_t colour, std::uint32_t alpha, std::uint32_t max) {
  return alpha == 0 ? 0 : std::min(max, colour * max / alpha);
}

// Returns the table of 16-bit values without data.range.
const LevelTable& upper_bytes() {
  static const LevelTable kTable = [] {
    LevelTable table{};
    for (std::size_t value = 0; value < table.size(); ++value) {
      table[value] = static_cast<std::uint8_t>(value >> 8);
    }
    return table;
  }();
  return kTable;
}

// An image whose values are read one by one.
struct SampleLayout {
  std::uint32_t height = 0, width = 0, bands = 1, bits = 8;
};

// Calls use(y, x, band, value) for every value of an image with 8 or 16 bits per value. Returns
// false if the file is damaged.
template <class Use>
bool visit_samples(TIFF* tiff, const SampleLayout& layout, const Use& use) {
  constexpr std::uint64_t kMaxBlockBytes = 1 << 30;
  const bool is_planar =
      field(tiff, TIFFTAG_PLANARCONFIG, PLANARCONFIG_CONTIG) == PLANARCONFIG_SEPARATE;
  const std::uint32_t planes = is_planar ? layout.bands : 1;
  const std::uint32_t bands = is_planar ? 1 : layout.bands;
  const bool is_tiled = TIFFIsTiled(tiff) != 0;
  // A block is a tile, or a row of a strip.
  std::uint32_t block_width = layout.width, block_height = 1;
  if (is_tiled) {
    TIFFGetField(tiff, TIFFTAG_TILEWIDTH, &block_width);
    TIFFGetField(tiff, TIFFTAG_TILELENGTH, &block_height);
  }
  if (block_width == 0 || block_height == 0) return false;
  const std::uint64_t bytes =
      is_tiled ? TIFFTileSize64(tiff) : static_cast<std::uint64_t>(TIFFScanlineSize64(tiff));
  const std::uint64_t value_bytes = layout.bits / 8;
  if (bytes > kMaxBlockBytes ||
      std::uint64_t{block_width} * block_height > bytes / value_bytes / bands) {
    return false;
  }
  std::vector<std::uint8_t> block(bytes);
  for (std::uint32_t plane = 0; plane < planes; ++plane) {
    for (std::uint32_t top = 0; top < layout.height; top += block_height) {
      for (std::uint32_t left = 0; left < layout.width; left += block_width) {
        const auto sample = static_cast<std::uint16_t>(plane);
        const tmsize_t read = is_tiled ? TIFFReadTile(tiff, block.data(), left, top, 0, sample)
                                       : TIFFReadScanline(tiff, block.data(), top, sample);
        if (read < 0) return false;
        const std::uint32_t rows = std::min(block_height, layout.height - top);
        const std::uint32_t columns = std::min(block_width, layout.width - left);
        for (std::uint32_t y = 0; y < rows; ++y) {
          const std::uint8_t* from =
              block.data() + std::uint64_t{y} * block_width * bands * value_bytes;
          for (std::uint32_t i = 0; i < columns * bands; ++i, from += value_bytes) {
            std::uint16_t value = *from;
            if (value_bytes == 2) std::memcpy(&value, from, 2);
            use(top + y, left + i / bands, is_planar ? plane : i % bands, value);
          }
        }
      }
    }
  }
  return true;
}

class TiffFile final : public Decoder {
 public:
  TiffFile(EncodedBytes file, const std::string& path);
  std::string decode(int channels, int reduce, Pixels& out, const LevelTable* levels) override;
  int find_max_value(int channels) override;

 private:
  void check_bands(int channels) const;
  // Visits the values of all bands as visit_samples() does. Throws DataError for a damaged file.
  template <class Use>
  void visit_values(const Use& use);
  // Returns the values of all bands, [height, width, bands].
  std::vector<std::uint16_t> read_values();
  void decode_bands(const LevelTable* levels, Pixels& out);
  void decode_levels(const LevelTable& levels, Pixels& out);
  // Throws DataError for a kind of image that libtiff cannot convert.
  void check_kind() const;
  void decode_cmyk(Pixels& out);
  void decode_raster(Pixels& out);
  [[noreturn]] void fail_damaged() const;
  // Returns the index of a value of all bands.
  std::size_t index(std::uint32_t y, std::uint32_t x, std::uint32_t band, int bands) const {
    return (std::size_t{y} * static_cast<std::size_t>(info_.width) + x) *
               static_cast<std::size_t>(bands) +
           band;
  }

  int bands_ = 1, bits_ = 8;  // bands per pixel, bits per sample
  bool has_alpha_ = false;    // the last band of a grey or an RGB image
  bool is_cmyk_ = false;
  bool is_direct_ = false;  // grey or RGB: the bands are not converted
  TiffSource source_;
};

TiffFile::TiffFile(EncodedBytes file, const std::string& path)
    : Decoder(file, path, ImageKind::kTiff), source_(file) {
  TIFF* tiff = source_.tiff = open(source_);
  if (tiff == nullptr) fail(path_, source_, "is damaged within its header");
  std::uint32_t width = 0, height = 0;
  TIFFGetField(tiff, TIFFTAG_IMAGEWIDTH, &width);
  TIFFGetField(tiff, TIFFTAG_IMAGELENGTH, &height);
  constexpr std::uint32_t kMaxSide = 0x7FFFFFFF;
  if (width > kMaxSide || height > kMaxSide)
    fail(path_, source_, "the header gives a negative size");
  info_.width = static_cast<int>(width);
  info_.height = static_cast<int>(height);
  const std::uint32_t photometric = field(tiff, TIFFTAG_PHOTOMETRIC, PHOTOMETRIC_MINISBLACK);
  const bool grey = photometric == PHOTOMETRIC_MINISBLACK || photometric == PHOTOMETRIC_MINISWHITE;
  info_.channels = grey ? 1 : 3;
  check_samples(tiff, path_, photometric);
  is_cmyk_ = photometric == PHOTOMETRIC_SEPARATED;
  is_direct_ = grey || photometric == PHOTOMETRIC_RGB;
  bands_ = static_cast<int>(field(tiff, TIFFTAG_SAMPLESPERPIXEL, 1));
  bits_ = static_cast<int>(field(tiff, TIFFTAG_BITSPERSAMPLE, 1));
  const std::vector<std::uint16_t> extra = extra_samples(tiff);
  has_alpha_ = !extra.empty() && extra[0] != EXTRASAMPLE_UNSPECIFIED;
  if (is_direct_ && bits_ == 16) info_.bits = 16;
  info_.orientation = static_cast<int>(field(tiff, TIFFTAG_ORIENTATION, ORIENTATION_TOPLEFT));
}

void TiffFile::check_bands(int channels) const {
  const auto reject = [&](const std::string& what) {
    throw DataError(path_, "TIFF: has ", counted(bands_, "band"), "; ", what);
  };
  if (channels != 1 && channels != 3) {
    if (bands_ != channels) reject(concat("data.channels asks for ", channels));
    if (!is_direct_) reject("bands of grey and RGB images are read, not those of other colours");
    if (bits_ == 8 || bits_ == 16) return;
    throw DataError(path_, "TIFF: has bands of ", bits_, " bits; convert them to 8 or 16 bits");
  }
  const int max_bands = info_.channels == 1 ? (has_alpha_ ? 2 : 1) : 4;
  if (is_direct_ && bands_ > max_bands) {
    reject(concat(
        "grey images, RGB images and these with alpha are read. Give data.channels: ", bands_,
        ", or extract one or three bands, for example with gdal_translate -b 1 -b 2 -b 3 "
        "FILE NEW.tif"));
  }
}

void TiffFile::fail_damaged() const {
  fail(path_, source_,
       concat("is damaged or truncated; its image of ", info_.width, " x ", info_.height,
              " pixels cannot be decoded"));
}

template <class Use>
void TiffFile::visit_values(const Use& use) {
  const SampleLayout layout{static_cast<std::uint32_t>(info_.height),
                            static_cast<std::uint32_t>(info_.width),
                            static_cast<std::uint32_t>(bands_), static_cast<std::uint32_t>(bits_)};
  if (!visit_samples(source_.tiff, layout, use) || !source_.error.empty()) fail_damaged();
}

std::string TiffFile::decode(int channels, int, Pixels& out, const LevelTable* levels) {
  check_bands(channels);
  source_.error.clear();
  if (channels != 1 && channels != 3) {
    decode_bands(levels, out);
  } else if (info_.bits == 16 && bands_ >= info_.channels &&
             (levels != nullptr || info_.channels == 1)) {
    // libtiff's conversion reads the wrong values of a grey tile that is wider than its part of the
    // image.
    decode_levels(levels != nullptr ? *levels : upper_bytes(), out);
  } else if (is_cmyk_) {
    decode_cmyk(out);
  } else {
    decode_raster(out);
  }
  if (!source_.warning.empty()) return "TIFF: " + source_.warning;
  const auto images = TIFFNumberOfDirectories(source_.tiff);
  return images < 2 ? "" : concat("TIFF: has ", images, " images, of which the first is read");
}

void TiffFile::decode_bands(const LevelTable* levels, Pixels& out) {
  out.reset(info_.height, info_.width, bands_);
  const bool is_inverted =
      field(source_.tiff, TIFFTAG_PHOTOMETRIC, PHOTOMETRIC_MINISBLACK) == PHOTOMETRIC_MINISWHITE;
  const auto use = [&](std::uint32_t y, std::uint32_t x, std::uint32_t band, std::uint16_t value) {
    const int byte = bits_ == 8 ? value : levels != nullptr ? (*levels)[value] : value >> 8;
    out.data()[index(y, x, band, bands_)] =
        static_cast<std::uint8_t>(is_inverted ? 255 - byte : byte);
  };
  visit_values(use);
}

std::vector<std::uint16_t> TiffFile::read_values() {
  std::vector<std::uint16_t> values(index(static_cast<std::uint32_t>(info_.height), 0, 0, bands_));
  const auto use = [&](std::uint32_t y, std::uint32_t x, std::uint32_t band, std::uint16_t value) {
    values[index(y, x, band, bands_)] = value;
  };
  visit_values(use);
  return values;
}

void TiffFile::decode_levels(const LevelTable& levels, Pixels& out) {
  const std::vector<std::uint16_t> values = read_values();
  const std::vector<std::uint16_t> extra = extra_samples(source_.tiff);
  const bool is_associated =
      bands_ > info_.channels && !extra.empty() && extra[0] == EXTRASAMPLE_ASSOCALPHA;
  const bool is_inverted =
      field(source_.tiff, TIFFTAG_PHOTOMETRIC, PHOTOMETRIC_MINISBLACK) == PHOTOMETRIC_MINISWHITE;
  out.reset(info_.height, info_.width, info_.channels);
  std::uint8_t* to = out.data();
  for (const std::uint16_t* pixel = values.data(); pixel < values.data() + values.size();
       pixel += bands_) {
    for (int c = 0; c < info_.channels; ++c) {
      std::uint32_t value = pixel[c];
      if (is_associated) value = divide_by_alpha(value, pixel[info_.channels], 0xFFFF);
      *to++ = static_cast<std::uint8_t>(is_inverted ? 255 - levels[value] : levels[value]);
    }
  }
}

int TiffFile::find_max_value(int channels) {
  check_bands(channels);
  source_.error.clear();
  if (bands_ < info_.channels) fail_damaged();
  const auto used =
      static_cast<std::uint32_t>(channels == 1 || channels == 3 ? info_.channels : bands_);
  std::uint16_t max = 0;
  const auto use = [&](std::uint32_t, std::uint32_t, std::uint32_t band, std::uint16_t value) {
    if (band < used) max = std::max(max, value);
  };
  visit_values(use);
  return max;
}

void TiffFile::check_kind() const {
  char reason[1024] = "";
  if (TIFFRGBAImageOK(source_.tiff, reason) == 0) {
    throw DataError(path_, "TIFF: is of an unsupported kind: ", reason);
  }
}

// libtiff's conversion would round colours down, up to one level below Pillow's.
void TiffFile::decode_cmyk(Pixels& out) {
  constexpr int kInks = 4, kMaxBands = 8;  // a row with thousands of bands would waste memory
  check_kind();
  if (bands_ > kMaxBands) {
    throw DataError(path_, "TIFF: has ", bands_, " bands; CMYK images with at most ", kMaxBands,
                    " bands are read; convert it to RGB");
  }
  std::vector<std::uint8_t> inks(index(static_cast<std::uint32_t>(info_.height), 0, 0, kInks));
  const auto use = [&](std::uint32_t y, std::uint32_t x, std::uint32_t band, std::uint16_t value) {
    if (band < kInks) inks[index(y, x, band, kInks)] = static_cast<std::uint8_t>(value);
  };
  visit_values(use);
  out.reset(info_.height, info_.width, info_.channels);
  std::uint8_t* to = out.data();
  for (std::size_t i = 0; i < inks.size(); i += kInks) {
    for (std::size_t c = 0; c < 3; ++c) *to++ = apply_ink(inks[i + c], 255 - inks[i + 3]);
  }
}

void TiffFile::decode_raster(Pixels& out) {
  check_kind();
  TIFF* tiff = source_.tiff;
  char reason[1024] = "";
  // Declares alpha as associated, because libtiff would multiply the colours by any other alpha.
  const std::vector<std::uint16_t> extra = extra_samples(tiff);
  const bool is_associated = !extra.empty() && extra[0] == EXTRASAMPLE_ASSOCALPHA;
  if (extra.size() == 1) {
    const std::uint16_t associated = EXTRASAMPLE_ASSOCALPHA;
    TIFFSetField(tiff, TIFFTAG_EXTRASAMPLES, 1, &associated);
  }
  TIFFRGBAImage image;
  if (TIFFRGBAImageBegin(&image, tiff, 1, reason) == 0) fail(path_, source_, "is damaged");
  if (image.Bitdepth16To8 != nullptr) {  // the upper bytes, as in Pillow; libtiff would round
    for (std::size_t v = 0; v < 1 << 16; ++v) {
      image.Bitdepth16To8[v] = static_cast<std::uint8_t>(v >> 8);
    }
  }
  // Keeps the raster as stored, because ImageFile rotates it by the orientation.
  image.req_orientation = image.orientation;
  std::vector<std::uint32_t> raster(static_cast<std::size_t>(info_.width) *
                                    static_cast<std::size_t>(info_.height));
  const int read = TIFFRGBAImageGet(&image, raster.data(), image.width, image.height);
  TIFFRGBAImageEnd(&image);
  if (read == 0 || !source_.error.empty()) fail_damaged();
  out.reset(info_.height, info_.width, info_.channels);
  std::uint8_t* to = out.data();
  const auto colour = [&](std::uint32_t value, std::uint32_t pixel) {
    return static_cast<std::uint8_t>(is_associated ? divide_by_alpha(value, TIFFGetA(pixel), 255)
                                                   : value);
  };
  for (const std::uint32_t pixel : raster) {
    *to++ = colour(TIFFGetR(pixel), pixel);
    if (info_.channels == 1) continue;
    *to++ = colour(TIFFGetG(pixel), pixel);
    *to++ = colour(TIFFGetB(pixel), pixel);
  }
}

}  // namespace

std::unique_ptr<Decoder> open_tiff(EncodedBytes file, const std::string& path) {
  return std::make_unique<TiffFile>(file, path);
}

}  // namespace trainer::data
