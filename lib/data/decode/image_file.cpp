#include "data/decode/image_file.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <variant>

#include "base/error.h"
#include "base/formats/zip.h"
#include "base/system_error.h"
#include "base/text.h"

namespace trainer::data {
namespace {

using OpenImage = std::unique_ptr<Decoder>(EncodedBytes file, const std::string& path);

struct Magic {
  std::string_view bytes;
  std::size_t offset;
  std::variant<OpenImage*, const char*> format;  // or the name of an unsupported one
};
using namespace std::string_view_literals;
const Magic kMagics[] = {
    {"\xFF\xD8"sv, 0, open_jpeg},
    {"\x89PNG\r\n\x1A\n"sv, 0, open_png},
    {"GIF8"sv, 0, open_gif},
    {"BM"sv, 0, open_bmp},
    {"P1"sv, 0, open_pnm},
    {"P2"sv, 0, open_pnm},
    {"P3"sv, 0, open_pnm},
    {"P4"sv, 0, open_pnm},
    {"P5"sv, 0, open_pnm},
    {"P6"sv, 0, open_pnm},
    {"WEBP"sv, 8, open_webp},
    {"II*\0"sv, 0, open_tiff},
    {"MM\0*"sv, 0, open_tiff},
    {"II+\0"sv, 0, open_tiff},  // BigTIFF
    {"MM\0+"sv, 0, open_tiff},
    {"8BPS"sv, 0, "Photoshop (PSD)"},
    {"P7\n"sv, 0, "PAM"},
    {"PF\n"sv, 0, "PFM"},
    {"Pf\n"sv, 0, "PFM"},
    {"ftyp"sv, 4, "HEIC or AVIF"},
    {"\0\0\0\x0CjP  "sv, 0, "JPEG 2000"},
    {"\xFF\x4F\xFF\x51"sv, 0, "JPEG 2000"},
    {"\xFF\x0A"sv, 0, "JPEG XL"},
    {"%PDF"sv, 0, "PDF"},
    {"PK\x03\x04"sv, 0, "zip"},
    {"\x1F\x8B"sv, 0, "gzip"},
    {"DICM"sv, 128, "DICOM"},
    {"<!DOCTYPE"sv, 0, "HTML"},
    {"<html"sv, 0, "HTML"},
};

const Magic* find_magic(EncodedBytes file) {
  for (const Magic& magic : kMagics) {
    if (file.size() >= magic.offset + magic.bytes.size() &&
        std::memcmp(file.data() + magic.offset, magic.bytes.data(), magic.bytes.size()) == 0) {
      return &magic;
    }
  }
  return nullptr;
}

[[noreturn]] void reject_kind(const std::string& path, const char* kind) {
  throw DataError(path, "is a ", kind,
                  " file, which is not supported; convert it to PNG or JPEG, for example with ",
                  std::string_view(kind) == "DICOM" ? "DCMTK: dcm2img +oj +Wm FILE NEW.jpg"
                                                    : "ImageMagick: magick FILE NEW.png");
}

// Recognises TGA by its name or its last bytes, because it has no magic bytes at its beginning.
bool is_tga(EncodedBytes file, const std::string& path) {
  constexpr std::string_view kEnd = "TRUEVISION-XFILE.\0"sv;
  return to_lower(std::filesystem::path(path).extension().string()) == ".tga" ||
         (file.size() > kEnd.size() &&
          std::memcmp(file.data() + file.size() - kEnd.size(), kEnd.data(), kEnd.size()) == 0);
}

OpenImage* detect_format(EncodedBytes file, const std::string& path) {
  if (file.empty()) throw DataError(path, "is empty");
  const Magic* magic = find_magic(file);
  if (magic == nullptr && is_tga(file, path)) reject_kind(path, "TGA");
  if (magic == nullptr) {
    throw DataError(path, "is not a supported image format (JPEG, PNG, WebP, TIFF, BMP, GIF, PNM)");
  }
  if (const auto* open = std::get_if<OpenImage*>(&magic->format)) return *open;
  reject_kind(path, std::get<const char*>(magic->format));
}

void check_size(const std::string& path, const ImageInfo& info, const ImageLimits& limits) {
  const std::string kind = to_string(info.kind);
  if (info.height < 1 || info.width < 1) throw DataError(path, kind, ": has no pixels");
  if (info.height > kMaxImageSide || info.width > kMaxImageSide) {
    throw DataError(path, kind, ": has ", info.width, " x ", info.height,
                    " pixels; a side may have at most ", kMaxImageSide,
                    ", whatever data.max_pixels is; cut the image into parts");
  }
  if (std::int64_t{info.height} * info.width <= limits.max_pixels) return;
  throw DataError(path, kind, ": has ", info.width, " x ", info.height, " pixels, more than ",
                  limits.max_pixels, "; raise data.max_pixels if that is right");
}

void to_grey(const Pixels& rgb, Pixels& out) {
  out.reset(rgb.height(), rgb.width(), 1);
  const std::uint8_t* from = rgb.data();
  std::uint8_t* to = out.data();
  for (std::size_t i = 0; i < out.size(); ++i) {
    to[i] = luma(from[3 * i], from[3 * i + 1], from[3 * i + 2]);
  }
}

// Replaces the bytes of an entry of a zip archive by those of the image.
void unpack_image(const StoredImage& image, std::vector<std::uint8_t>& bytes) {
  const ZipPacking& zip = *image.zip;
  const std::size_t size = zip.size;
  if (!zip.is_deflated) {
    if (bytes.size() != size) {
      throw DataError(image.describe(), "is damaged: the zip archive gives it two sizes");
    }
    unpack_zip_member(bytes, kZipStored, zip.crc, bytes, image.describe());
    return;
  }
  thread_local std::vector<std::uint8_t> unpacked;
  unpacked.resize(size);
  unpack_zip_member(bytes, kZipDeflated, zip.crc, unpacked, image.describe());
  bytes.swap(unpacked);
}

}  // namespace

bool begins_like_image(std::span<const std::uint8_t> start) {
  const Magic* magic = find_magic(start);
  if (magic == nullptr || !std::holds_alternative<OpenImage*>(magic->format)) return false;
  if (std::get<OpenImage*>(magic->format) == open_jpeg) {
    return start.size() > 2 && start[2] == 0xFF;  // the next marker
  }
  return magic->bytes.size() >= 4;
}

void read_image_file(const StoredImage& image, const ImageLimits& limits,
                     std::vector<std::uint8_t>& bytes) {
  const Path& path = image.path;
  const auto fail = [&](const std::string& reason) { throw DataError(image.describe(), reason); };
  std::error_code error;
  const auto whole = std::filesystem::file_size(path, error);
  if (error) fail(error.message());
  const auto size = image.bytes < 0 ? whole : static_cast<std::uintmax_t>(image.bytes);
  const auto unpacked = image.zip ? static_cast<std::uintmax_t>(image.zip->size) : size;
  if (const auto largest = std::max(size, unpacked);
      largest > static_cast<std::uintmax_t>(limits.max_file_size)) {
    fail(concat("has ", largest, " bytes, more than ", limits.max_file_size,
                "; raise data.max_file_size if that is right"));
  }
  const auto first = static_cast<std::uintmax_t>(image.offset);
  if (first > whole || size > whole - first) {
    fail("the file became shorter while it was read");
  }
  bytes.resize(size);
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  in.seekg(static_cast<std::streamoff>(first));
  if (!in.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(size))) {
    const int reason = errno;
    const std::string text =
        concat("cannot be read: ", reason != 0 ? describe_system_error(reason)
                                               : "the file became shorter while it was read");
    // The image may be undamaged: after a DataError, data.on_error would leave it out.
    if (is_open_file_limit(reason)) {
      throw Error(kExitData, printable(image.describe()), ": ", text);
    }
    fail(text);
  }
  if (image.zip) unpack_image(image, bytes);
}

ImageFile::ImageFile(EncodedBytes file, const std::string& path, const ImageLimits& limits)
    : path_(path), decoder_(detect_format(file, path)(file, path)), info_(decoder_->info()) {
  check_size(path, info_, limits);
  if (info_.orientation >= 5) std::swap(info_.height, info_.width);
}

void ImageFile::check_channels_with_alpha(int channels) const {
  const int found = info_.channels + (info_.has_alpha ? 1 : 0);
  if (info_.has_alpha && channels == found) return;
  const char* files = channels == 2   ? "grey PNG files with alpha, or "
                      : channels == 4 ? "PNG or WebP files in colour with alpha, or "
                                      : "";
  throw DataError(path_, to_string(info_.kind), ": has ", counted(found, "channel"),
                  info_.has_alpha ? " with alpha" : "", "; data.channels: ", channels, " needs ",
                  files, "TIFF files with ", channels, " bands");
}

std::string ImageFile::decode(int channels, int reduce, Pixels& out, const LevelTable* levels) {
  if (channels != 1 && channels != 3 && info_.kind != ImageKind::kTiff) {
    check_channels_with_alpha(channels);
  }
  std::string warning = decoder_->decode(channels, reduce, out, levels);
  if (channels == 1 && out.channels() == 3) {
    Pixels grey;
    to_grey(out, grey);
    out = std::move(grey);
  }
  orient(out, info_.orientation);
  return warning;
}

int ImageFile::find_max_value(int channels) { return decoder_->find_max_value(channels); }

int Decoder::find_max_value(int /*channels*/) {
  throw std::logic_error("find_max_value: not a file of 16-bit values");
}

}  // namespace trainer::data
