// The kind of an image file by its first bytes, and all kinds but JPEG through stb_image.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "data/decode/decode_jpeg.h"
#include "data/images/image.h"

#define STBI_NO_STDIO
#include <stb/stb_image.h>

namespace trainer::data {
namespace {

using File = std::span<const std::uint8_t>;

struct Magic {
  const char* kind;
  std::string_view bytes;
  std::size_t offset;
  bool readable;
};
using namespace std::string_view_literals;
constexpr Magic kMagics[] = {
    {"JPEG", "\xFF\xD8"sv, 0, true},
    {"PNG", "\x89PNG\r\n\x1A\n"sv, 0, true},
    {"GIF", "GIF8"sv, 0, true},
    {"BMP", "BM"sv, 0, true},
    {"PSD", "8BPS"sv, 0, true},
    {"PNM", "P5"sv, 0, true},
    {"PNM", "P6"sv, 0, true},
    {"WebP", "WEBP"sv, 8, false},
    {"TIFF", "II*\0"sv, 0, false},
    {"TIFF", "MM\0*"sv, 0, false},
    {"HEIC or AVIF", "ftyp"sv, 4, false},
    {"JPEG 2000", "\0\0\0\x0CjP  "sv, 0, false},
    {"JPEG XL", "\xFF\x0A"sv, 0, false},
    {"PDF", "%PDF"sv, 0, false},
    {"zip", "PK\x03\x04"sv, 0, false},
    {"gzip", "\x1F\x8B"sv, 0, false},
    {"HTML", "<!DOCTYPE"sv, 0, false},
    {"HTML", "<html"sv, 0, false},
};

const Magic* magic_of(File file) {
  for (const Magic& magic : kMagics) {
    if (file.size() >= magic.offset + magic.bytes.size() &&
        std::memcmp(file.data() + magic.offset, magic.bytes.data(), magic.bytes.size()) == 0) {
      return &magic;
    }
  }
  return nullptr;
}

// TGA has no magic bytes; stb_image tells it by the plausibility of its header.
std::string kind_of(File file, const std::string& path) {
  if (file.empty()) throw DataError(path, "is empty");
  if (const Magic* magic = magic_of(file)) {
    if (magic->readable) return magic->kind;
    throw DataError(
        path, concat("is a ", magic->kind, " file, which is not read; convert it to JPEG or PNG"));
  }
  int w = 0, h = 0, c = 0;
  if (stbi_info_from_memory(file.data(), static_cast<int>(file.size()), &w, &h, &c) != 0) {
    return "TGA";
  }
  throw DataError(path, "is no image of a known kind (JPEG, PNG, BMP, GIF, TGA, PSD, PNM)");
}

void check_size(const std::string& path, const std::string& kind, std::int64_t height,
                std::int64_t width, const ImageLimits& limits) {
  if (height < 1 || width < 1) throw DataError(path, concat(kind, ": has no pixels"));
  if (height * width <= limits.max_pixels) return;
  throw DataError(path, concat(kind, ": has ", width, " x ", height, " pixels, more than ",
                               limits.max_pixels, "; raise data.max_pixels if that is right"));
}

ImageInfo stb_header(File file, const std::string& path, const std::string& kind) {
  ImageInfo info;
  info.kind = kind;
  int channels = 0;
  if (stbi_info_from_memory(file.data(), static_cast<int>(file.size()), &info.width, &info.height,
                            &channels) == 0) {
    throw DataError(path,
                    concat(kind, ": the header cannot be read (", stbi_failure_reason(), ")"));
  }
  info.channels = channels < 3 ? 1 : 3;
  return info;
}

void to_grey(const Pixels& rgb, Pixels& out) {
  out.reset(rgb.height(), rgb.width(), 1);
  const std::uint8_t* from = rgb.data();
  std::uint8_t* to = out.data();
  for (std::size_t i = 0; i < out.size(); ++i) {
    to[i] = luma(from[3 * i], from[3 * i + 1], from[3 * i + 2]);
  }
}

void decode_stb(File file, const std::string& path, const ImageInfo& info, Pixels& out) {
  int width = 0, height = 0, channels = 0;
  const std::unique_ptr<std::uint8_t, void (*)(void*)> pixels(
      stbi_load_from_memory(file.data(), static_cast<int>(file.size()), &width, &height, &channels,
                            info.channels),
      stbi_image_free);
  if (!pixels) {
    throw DataError(path, concat(info.kind, ": cannot be decoded (", stbi_failure_reason(), ")"));
  }
  out.reset(height, width, info.channels);
  std::copy_n(pixels.get(), out.size(), out.data());
}

}  // namespace

void Pixels::reset(int height, int width, int channels) {
  height_ = height;
  width_ = width;
  channels_ = channels;
  if (size() <= capacity_) return;
  capacity_ = size();
  memory_ = std::make_unique_for_overwrite<std::uint8_t[]>(capacity_);
}

void read_image_file(const Path& path, const ImageLimits& limits,
                     std::vector<std::uint8_t>& bytes) {
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);
  if (error) throw DataError(path.string(), error.message());
  if (size > static_cast<std::uintmax_t>(limits.max_file_size)) {
    throw DataError(path.string(), concat("has ", size, " bytes, more than ", limits.max_file_size,
                                          "; raise data.max_file_size if that is right"));
  }
  bytes.resize(size);
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  if (!in.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(size))) {
    const std::string reason = errno != 0 ? std::strerror(errno) : "it became shorter meanwhile";
    throw DataError(path.string(), "cannot be read: " + reason);
  }
}

ImageInfo read_header(File file, const std::string& path, const ImageLimits& limits) {
  const std::string kind = kind_of(file, path);
  ImageInfo info = kind == "JPEG" ? jpeg_header(file, path) : stb_header(file, path, kind);
  check_size(path, kind, info.height, info.width, limits);
  return info;
}

void decode(File file, const std::string& path, const ImageInfo& info, int channels, int reduce,
            Pixels& out, std::string* warning) {
  if (info.kind == "JPEG") {
    decode_jpeg(file, path, channels, reduce, out, warning);
  } else {
    decode_stb(file, path, info, out);
  }
  if (channels == 1 && out.channels() == 3) {
    Pixels grey;
    to_grey(out, grey);
    out = std::move(grey);
  }
  orient(out, info.orientation);
}

}  // namespace trainer::data
