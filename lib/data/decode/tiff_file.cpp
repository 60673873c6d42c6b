#include "data/decode/tiff_file.h"

#include <tiffio.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <new>
#include <vector>

#include "base/error.h"

namespace trainer::data {
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

namespace {

TiffSource& self(thandle_t handle) { return *static_cast<TiffSource*>(handle); }

tmsize_t read(thandle_t handle, void* to, tmsize_t wanted) {
  TiffSource& source = self(handle);
  const toff_t size = source.file.size();
  if (source.at >= size || wanted <= 0) return 0;
  const toff_t count = std::min<toff_t>(size - source.at, static_cast<toff_t>(wanted));
  std::memcpy(to, source.file.data() + source.at, static_cast<std::size_t>(count));
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
  throw DataError(path, concat("TIFF: ", what, source.error.empty() ? "" : ": " + source.error));
}

// Returns the kinds of the samples of a pixel that are not colours. The list may be shorter than
// their number; the kinds of the other samples are unspecified.
std::vector<std::uint16_t> extra_samples(TIFF* tiff) {
  std::uint16_t count = 0;
  std::uint16_t* kinds = nullptr;
  if (TIFFGetField(tiff, TIFFTAG_EXTRASAMPLES, &count, &kinds) == 0) return {};
  return {kinds, kinds + count};
}

// Throws DataError for samples whose numbers or bands libtiff would turn into other pixels.
void check_samples(TIFF* tiff, const std::string& path, std::uint32_t photometric, bool is_grey) {
  const auto reject = [&](const std::string& what) {
    throw DataError(path, concat("TIFF: ", what));
  };
  const std::uint32_t bits = field(tiff, TIFFTAG_BITSPERSAMPLE, 1);
  const std::uint32_t format = field(tiff, TIFFTAG_SAMPLEFORMAT, SAMPLEFORMAT_UINT);
  const std::uint32_t samples = field(tiff, TIFFTAG_SAMPLESPERPIXEL, 1);
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
  const std::vector<std::uint16_t> extra = extra_samples(tiff);
  const bool has_alpha = !extra.empty() && extra[0] != EXTRASAMPLE_UNSPECIFIED;
  const bool is_rgb = photometric == PHOTOMETRIC_RGB;
  const std::uint32_t max_samples = is_grey ? (has_alpha ? 2 : 1) : 4;
  if ((is_grey || is_rgb) && samples > max_samples) {
    reject(concat(
        "has ", samples,
        " bands; only grey and RGB images, with or without alpha, are supported. Extract one or "
        "three bands, for example with gdal_translate -b 1 -b 2 -b 3 FILE NEW.tif"));
  }
}

// Divides a colour by the alpha that it was multiplied by, as Pillow does.
std::uint8_t divide_by_alpha(std::uint32_t colour, std::uint32_t alpha) {
  if (alpha == 0) return 0;
  return static_cast<std::uint8_t>(std::min<std::uint32_t>(255, colour * 255 / alpha));
}

}  // namespace

TiffFile::TiffFile(EncodedBytes file, const std::string& path)
    : path_(path), source_(std::make_unique<TiffSource>(file)) {
  TIFF* tiff = source_->tiff = open(*source_);
  if (tiff == nullptr) fail(path_, *source_, "is damaged within its header");
  std::uint32_t width = 0, height = 0;
  TIFFGetField(tiff, TIFFTAG_IMAGEWIDTH, &width);
  TIFFGetField(tiff, TIFFTAG_IMAGELENGTH, &height);
  constexpr std::uint32_t kMaxSide = 0x7FFFFFFF;
  if (width > kMaxSide || height > kMaxSide)
    fail(path_, *source_, "the header gives a negative size");
  info_.kind = ImageKind::kTiff;
  info_.width = static_cast<int>(width);
  info_.height = static_cast<int>(height);
  const std::uint32_t photometric = field(tiff, TIFFTAG_PHOTOMETRIC, PHOTOMETRIC_MINISBLACK);
  const bool grey = photometric == PHOTOMETRIC_MINISBLACK || photometric == PHOTOMETRIC_MINISWHITE;
  info_.channels = grey ? 1 : 3;
  check_samples(tiff, path_, photometric, grey);
  info_.orientation = static_cast<int>(field(tiff, TIFFTAG_ORIENTATION, ORIENTATION_TOPLEFT));
}

TiffFile::TiffFile(TiffFile&&) noexcept = default;
TiffFile& TiffFile::operator=(TiffFile&&) noexcept = default;
TiffFile::~TiffFile() = default;

std::string TiffFile::decode(int, int, Pixels& out) {
  TIFF* tiff = source_->tiff;
  source_->error.clear();
  char reason[1024] = "";
  if (TIFFRGBAImageOK(tiff, reason) == 0) {
    throw DataError(path_, concat("TIFF: is of an unsupported kind: ", reason));
  }
  // Declares alpha as associated, because libtiff would multiply the colours by any other alpha.
  const std::vector<std::uint16_t> extra = extra_samples(tiff);
  const bool is_associated = !extra.empty() && extra[0] == EXTRASAMPLE_ASSOCALPHA;
  if (extra.size() == 1) {
    const std::uint16_t associated = EXTRASAMPLE_ASSOCALPHA;
    TIFFSetField(tiff, TIFFTAG_EXTRASAMPLES, 1, &associated);
  }
  TIFFRGBAImage image;
  if (TIFFRGBAImageBegin(&image, tiff, 1, reason) == 0) fail(path_, *source_, "is damaged");
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
  if (read == 0 || !source_->error.empty()) {
    fail(path_, *source_,
         concat("is damaged or truncated; its image of ", info_.width, " x ", info_.height,
                " pixels cannot be decoded"));
  }
  out.reset(info_.height, info_.width, info_.channels);
  std::uint8_t* to = out.data();
  const auto colour = [&](std::uint32_t value, std::uint32_t pixel) {
    return is_associated ? divide_by_alpha(value, TIFFGetA(pixel))
                         : static_cast<std::uint8_t>(value);
  };
  for (const std::uint32_t pixel : raster) {
    *to++ = colour(TIFFGetR(pixel), pixel);
    if (info_.channels == 1) continue;
    *to++ = colour(TIFFGetG(pixel), pixel);
    *to++ = colour(TIFFGetB(pixel), pixel);
  }
  return source_->warning.empty() ? "" : "TIFF: " + source_->warning;
}

}  // namespace trainer::data
