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
// The bytes, and libtiff's state on them.
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
  std::string error, warning;  // the last one, the first one
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

std::string text_of(const char* format, va_list arguments) {
  char text[256];
  std::vsnprintf(text, sizeof text, format, arguments);
  return text;
}
int on_error(TIFF*, void* source, const char*, const char* format, va_list arguments) {
  static_cast<TiffSource*>(source)->error = text_of(format, arguments);
  return 1;
}
int on_warning(TIFF*, void* source, const char*, const char* format, va_list arguments) {
  std::string& warning = static_cast<TiffSource*>(source)->warning;
  if (warning.empty()) warning = text_of(format, arguments);
  return 1;
}

TIFF* open(TiffSource& source) {
  // Bounds one strip, tile or table: a small file that claims a large one would waste memory.
  constexpr std::uint64_t kMinMemory = 64 << 20, kMaxMemory = 1 << 30, kMaxExpansion = 64;
  const auto most_memory =
      static_cast<tmsize_t>(std::clamp(source.file.size() * kMaxExpansion, kMinMemory, kMaxMemory));
  TIFFOpenOptions* options = TIFFOpenOptionsAlloc();
  if (options == nullptr) throw std::bad_alloc();
  TIFFOpenOptionsSetMaxSingleMemAlloc(options, most_memory);
  TIFFOpenOptionsSetErrorHandlerExtR(options, on_error, &source);
  TIFFOpenOptionsSetWarningHandlerExtR(options, on_warning, &source);
  // m: not mapped into memory, in which the file lies anyway.
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

}  // namespace

TiffFile::TiffFile(EncodedBytes file, const std::string& path)
    : path_(path), source_(std::make_unique<TiffSource>(file)) {
  TIFF* tiff = source_->tiff = open(*source_);
  if (tiff == nullptr) fail(path_, *source_, "is damaged within its header");
  std::uint32_t width = 0, height = 0;
  TIFFGetField(tiff, TIFFTAG_IMAGEWIDTH, &width);
  TIFFGetField(tiff, TIFFTAG_IMAGELENGTH, &height);
  constexpr std::uint32_t kMostSide = 0x7FFFFFFF;
  if (width > kMostSide || height > kMostSide)
    fail(path_, *source_, "the header gives a negative size");
  info_.kind = ImageKind::kTiff;
  info_.width = static_cast<int>(width);
  info_.height = static_cast<int>(height);
  const std::uint32_t photometric = field(tiff, TIFFTAG_PHOTOMETRIC, PHOTOMETRIC_MINISBLACK);
  const bool grey = photometric == PHOTOMETRIC_MINISBLACK || photometric == PHOTOMETRIC_MINISWHITE;
  info_.channels = grey ? 1 : 3;
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
    throw DataError(path_, concat("TIFF: is of a kind that is not read: ", reason));
  }
  // libtiff would multiply the colours by an alpha that they are not multiplied by yet.
  std::uint16_t extra = 0;
  std::uint16_t* kinds = nullptr;
  if (TIFFGetField(tiff, TIFFTAG_EXTRASAMPLES, &extra, &kinds) != 0 && extra == 1) {
    const std::uint16_t associated = EXTRASAMPLE_ASSOCALPHA;
    TIFFSetField(tiff, TIFFTAG_EXTRASAMPLES, 1, &associated);
  }
  TIFFRGBAImage image;
  if (TIFFRGBAImageBegin(&image, tiff, 1, reason) == 0) fail(path_, *source_, "is damaged");
  if (image.Bitdepth16To8 != nullptr) {  // the upper bytes, as Pillow has it; libtiff would round
    for (std::size_t v = 0; v < 1 << 16; ++v) {
      image.Bitdepth16To8[v] = static_cast<std::uint8_t>(v >> 8);
    }
  }
  // As stored: ImageFile turns it as the orientation says.
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
  for (const std::uint32_t pixel : raster) {
    *to++ = static_cast<std::uint8_t>(TIFFGetR(pixel));
    if (info_.channels == 1) continue;
    *to++ = static_cast<std::uint8_t>(TIFFGetG(pixel));
    *to++ = static_cast<std::uint8_t>(TIFFGetB(pixel));
  }
  return source_->warning.empty() ? "" : "TIFF: " + source_->warning;
}

}  // namespace trainer::data
