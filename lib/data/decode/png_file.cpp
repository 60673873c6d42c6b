// Reads PNG files with libpng.
#include <libdeflate.h>
#include <png.h>

#include <algorithm>
#include <charconv>
#include <csetjmp>
#include <cstring>
#include <optional>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "data/decode/byte_reader.h"
#include "data/decode/decoder.h"

namespace trainer::data {
namespace {

constexpr std::size_t kSignature = 8;

// libpng with all state that a longjmp may leave. Objects with destructors must not exist between
// setjmp and the calls of libpng.
class PngDecoder {
 public:
  explicit PngDecoder(EncodedBytes file) : file_(file) {
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, on_error, on_warning);
    if (png_ != nullptr) info_ = png_create_info_struct(png_);
  }
  ~PngDecoder() { png_destroy_read_struct(&png_, &info_, nullptr); }
  PngDecoder(const PngDecoder&) = delete;
  PngDecoder& operator=(const PngDecoder&) = delete;

  const std::string& error() const { return error_; }
  const std::string& warning() const { return warning_; }
  bool past_end() const { return past_end_; }

  struct Form {
    bool keeps_16 = false;      // keeps 16-bit values; otherwise their upper bytes are taken
    bool keeps_alpha = false;   // adds a value for alpha, also for colours declared transparent
    std::size_t row_bytes = 0;  // the bytes of a row in this form
  };
  // Decodes rows of numbers, 1 or 3 per pixel as in the file, and one more for alpha.
  bool decode(png_bytepp rows, const Form& form) {
    if (info_ == nullptr) return false;
    if (setjmp(jump_) != 0) return false;
    png_set_read_fn(png_, this, read);
    png_set_crc_action(png_, PNG_CRC_ERROR_QUIT, PNG_CRC_ERROR_QUIT);
    png_set_user_limits(png_, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
    // Chunks that do not decide the pixels are verified and skipped. The first is that of
    // transparent colours.
    static constexpr char kSkipped[] =
        "tRNS\0bKGD\0cHRM\0eXIf\0gAMA\0hIST\0iCCP\0iTXt\0oFFs\0pCAL\0pHYs\0sBIT\0sCAL\0sPLT\0sRGB\0"
        "tEXt\0tIME\0zTXt";
    constexpr int kNameBytes = 5;
    const int kept = form.keeps_alpha ? 1 : 0;
    png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER,
                                reinterpret_cast<png_const_bytep>(kSkipped + kept * kNameBytes),
                                static_cast<int>(sizeof kSkipped) / kNameBytes - kept);
    png_read_info(png_, info_);
    png_set_palette_to_rgb(png_);
    png_set_expand_gray_1_2_4_to_8(png_);
    if (form.keeps_alpha) {
      png_set_tRNS_to_alpha(png_);
    } else {
      png_set_strip_alpha(png_);
    }
    if (!form.keeps_16) png_set_strip_16(png_);
    png_set_interlace_handling(png_);
    png_read_update_info(png_, info_);
    if (png_get_rowbytes(png_, info_) != form.row_bytes) png_error(png_, "its alpha is damaged");
    png_read_image(png_, rows);
    png_read_end(png_, nullptr);
    return true;
  }

 private:
  static PngDecoder& self(png_structp png) {
    return *static_cast<PngDecoder*>(png_get_error_ptr(png));
  }
  [[noreturn]] static void on_error(png_structp png, png_const_charp text) {
    self(png).error_ = text;
    std::longjmp(self(png).jump_, 1);
  }
  static void on_warning(png_structp png, png_const_charp text) {
    if (self(png).warning_.empty()) self(png).warning_ = text;
  }
  static void read(png_structp png, png_bytep to, std::size_t count) {
    PngDecoder& decoder = self(png);
    if (count > decoder.file_.size() - decoder.at_) {
      decoder.past_end_ = true;
      png_error(png, "the file ends");
    }
    std::memcpy(to, decoder.file_.data() + decoder.at_, count);
    decoder.at_ += count;
  }

  EncodedBytes file_;
  std::size_t at_ = 0;
  bool past_end_ = false;
  std::string error_, warning_;
  std::jmp_buf jump_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
};

// Reads a big-endian value.
std::size_t read_value(const std::uint8_t* bytes) {
  return std::size_t{bytes[0]} << 8 | std::size_t{bytes[1]};
}

constexpr std::size_t kExifPrefix = 6;  // "Exif\0\0" before the TIFF block of EXIF

// Returns the text of compressed bytes; "" if they are damaged or the text is longer than 1 MiB.
std::string inflate_text(EncodedBytes packed) {
  constexpr std::size_t kMaxText = std::size_t{1} << 20;
  std::string text(kMaxText, '\0');
  libdeflate_decompressor* decompressor = libdeflate_alloc_decompressor();
  std::size_t size = 0;
  const libdeflate_result result = libdeflate_zlib_decompress(
      decompressor, packed.data(), packed.size(), text.data(), text.size(), &size);
  libdeflate_free_decompressor(decompressor);
  return result == LIBDEFLATE_SUCCESS ? text.substr(0, size) : "";
}

// Returns the bytes behind the first zero, none if there is no zero.
EncodedBytes skip_text(EncodedBytes bytes) {
  const auto end = std::ranges::find(bytes, 0);
  return end == bytes.end() ? EncodedBytes() : EncodedBytes(end + 1, bytes.end());
}

// Returns whether there is a chunk of transparent colours before the pixels.
bool has_transparent_colours(EncodedBytes file) {
  for (std::size_t at = kSignature; at + 12 <= file.size();) {
    const std::uint8_t* chunk = file.data() + at;
    if (std::memcmp(chunk + 4, "tRNS", 4) == 0) return true;
    if (std::memcmp(chunk + 4, "IDAT", 4) == 0) return false;
    const std::size_t length = std::size_t{chunk[0]} << 24 | std::size_t{chunk[1]} << 16 |
                               std::size_t{chunk[2]} << 8 | std::size_t{chunk[3]};
    if (length > file.size() - at - 12) return false;
    at += 12 + length;
  }
  return false;
}

// Returns whether a text chunk begins with this keyword.
bool has_keyword(EncodedBytes chunk, std::string_view keyword) {
  return chunk.size() > keyword.size() && chunk[keyword.size()] == 0 &&
         std::memcmp(chunk.data(), keyword.data(), keyword.size()) == 0;
}

bool is_xmp(EncodedBytes itxt) { return has_keyword(itxt, "XML:com.adobe.xmp"); }

// Returns the orientation of an iTXt chunk with XMP.
int itxt_orientation(EncodedBytes itxt) {
  const EncodedBytes content = skip_text(itxt);  // compression flag and method, two texts, XMP
  if (content.size() < 2) return 1;
  const EncodedBytes packet = skip_text(skip_text(content.subspan(2)));
  if (content[0] == 0) return xmp_orientation(packet);
  const std::string text = inflate_text(packet);
  return xmp_orientation({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
}

// Returns whether a tEXt or zTXt chunk contains EXIF in hexadecimal, as ImageMagick writes it.
bool is_raw_profile(EncodedBytes chunk) {
  return has_keyword(chunk, "Raw profile type exif") || has_keyword(chunk, "Raw profile type APP1");
}

// Returns the text of a chunk for which is_raw_profile() is true.
std::string read_raw_profile(EncodedBytes chunk, bool is_compressed) {
  const EncodedBytes content = skip_text(chunk);
  if (!is_compressed) return std::string(content.begin(), content.end());
  return content.empty() ? "" : inflate_text(content.subspan(1));  // behind the method
}

// Returns the bytes of "\nexif\n      32\n4578...", whose hexadecimal digits are in lines; none if
// the text is not of this form.
std::vector<std::uint8_t> parse_raw_profile(const std::string& text) {
  std::size_t line = 0;
  for (int skipped = 0; skipped < 3; ++skipped) {  // an empty line, the name and the length
    line = text.find('\n', line);
    if (line == std::string::npos) return {};
    ++line;
  }
  std::string digits = text.substr(line);
  std::erase(digits, '\n');
  std::vector<std::uint8_t> bytes(digits.size() / 2);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const char* const pair = digits.data() + 2 * i;
    if (std::from_chars(pair, pair + 2, bytes[i], 16).ptr != pair + 2) return {};
  }
  return bytes;
}

// Returns the orientation of EXIF in a text chunk for which is_raw_profile() is true.
std::optional<int> raw_profile_orientation(EncodedBytes chunk, bool is_compressed) {
  const std::vector<std::uint8_t> exif = parse_raw_profile(read_raw_profile(chunk, is_compressed));
  if (exif.size() <= kExifPrefix) return std::nullopt;
  return tiff_orientation(EncodedBytes(exif).subspan(kExifPrefix));
}

// Returns the orientation of the eXIf chunk, wherever the chunk is, or else of EXIF in a text, or
// else of XMP; 1 if the file has none of these. Reads only the first text of each kind: a small
// file can have thousands of texts of 1 MiB.
int find_orientation(EncodedBytes file) {
  std::optional<int> of_xmp, of_text;
  bool has_raw_profile = false;
  for (std::size_t at = kSignature; at + 12 <= file.size();) {
    const std::uint8_t* chunk = file.data() + at;
    const std::size_t length = std::size_t{chunk[0]} << 24 | std::size_t{chunk[1]} << 16 |
                               std::size_t{chunk[2]} << 8 | std::size_t{chunk[3]};
    if (length > file.size() - at - 12) break;
    const EncodedBytes content(chunk + 8, length);
    const auto is_kind = [&](const char* kind) { return std::memcmp(chunk + 4, kind, 4) == 0; };
    if (is_kind("eXIf")) {
      if (const auto of_exif = tiff_orientation(content)) return *of_exif;
    } else if (is_kind("iTXt")) {
      if (!of_xmp && is_xmp(content)) of_xmp = itxt_orientation(content);
    } else if (is_kind("zTXt") || is_kind("tEXt")) {
      if (!has_raw_profile && is_raw_profile(content)) {
        has_raw_profile = true;
        of_text = raw_profile_orientation(content, is_kind("zTXt"));
      }
    }
    at += 12 + length;
  }
  return of_text.value_or(of_xmp.value_or(1));
}

class PngFile final : public Decoder {
 public:
  PngFile(EncodedBytes file, const std::string& path);
  std::string decode(int channels, int reduce, Pixels& out, const LevelTable* levels) override;
  int find_max_value(int channels) override;

 private:
  // Fills `out`, whose channels are info().channels values of 1 or 2 bytes, big-endian, and a value
  // more with `alpha`. Returns libpng's warning.
  enum class Alpha { kDropped, kKept };
  std::string read_rows(Alpha alpha, Pixels& out) const;

  int bits_ = 8;  // bits per number
};

PngFile::PngFile(EncodedBytes file, const std::string& path)
    : Decoder(file, path, ImageKind::kPng) {
  constexpr std::uint32_t kMaxSide = 0x7FFFFFFF, kColour = 2, kAlpha = 4;
  ByteReader reader(file, path, info_.kind);
  reader.take(kSignature, "the header");
  if (reader.u32_big("the header") != 13 ||
      std::memcmp(reader.take(4, "the header").data(), "IHDR", 4) != 0) {
    reader.fail("does not begin with its header; the file is damaged");
  }
  const std::uint32_t width = reader.u32_big("the header"), height = reader.u32_big("the header");
  const std::uint32_t bits = reader.u8("the header"), colours = reader.u8("the header");
  if (width > kMaxSide || height > kMaxSide) reader.fail("the header gives a negative size");
  info_.width = static_cast<int>(width);
  info_.height = static_cast<int>(height);
  info_.channels = (colours & kColour) != 0 ? 3 : 1;
  info_.has_alpha = (colours & kAlpha) != 0 || has_transparent_colours(file);
  info_.orientation = find_orientation(file);
  bits_ = static_cast<int>(bits);
  info_.bits = bits_ == 16 ? 16 : 8;
}

std::string PngFile::read_rows(Alpha alpha, Pixels& out) const {
  // DEFLATE compresses at most 1032 times.
  const std::uint64_t row =
      (static_cast<std::uint64_t>(info_.width) * static_cast<std::uint64_t>(bits_) + 7) / 8 + 1;
  if (row * static_cast<std::uint64_t>(info_.height) > std::uint64_t{file_.size()} * 1032 + 1032) {
    throw DataError(path_, "PNG: is truncated: ", file_.size(), " bytes cannot hold ", info_.width,
                    " x ", info_.height, " pixels");
  }
  std::vector<png_bytep> rows(info_.height);
  for (std::size_t y = 0; y < rows.size(); ++y) rows[y] = out.row(static_cast<int>(y));
  const int values = info_.channels + (alpha == Alpha::kKept ? 1 : 0);
  PngDecoder decoder(file_);
  const bool is_read = decoder.decode(rows.data(), {.keeps_16 = out.channels() == 2 * values,
                                                    .keeps_alpha = alpha == Alpha::kKept,
                                                    .row_bytes = out.row_bytes()});
  if (is_read) return decoder.warning();
  throw DataError(path_, decoder.past_end()
                             ? concat("PNG: is truncated: the file ends after ", file_.size(),
                                      " bytes, before the image of ", info_.width, " x ",
                                      info_.height, " pixels and its end marker are complete")
                             : "PNG: is damaged: " + decoder.error());
}

std::string PngFile::decode(int channels, int, Pixels& out, const LevelTable* levels) {
  const Alpha alpha = channels == 2 || channels == 4 ? Alpha::kKept : Alpha::kDropped;
  const int values = info_.channels + (alpha == Alpha::kKept ? 1 : 0);
  out.reset(info_.height, info_.width, values);
  if (levels == nullptr || info_.bits != 16) return read_rows(alpha, out);
  Pixels wide(info_.height, info_.width, 2 * values);
  std::string warning = read_rows(alpha, wide);
  const auto colours = static_cast<std::size_t>(info_.channels);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::size_t value = read_value(wide.data() + 2 * i);
    const bool is_alpha = i % static_cast<std::size_t>(values) == colours;
    out.data()[i] = is_alpha ? static_cast<std::uint8_t>(value >> 8) : (*levels)[value];
  }
  return warning;
}

int PngFile::find_max_value(int) {
  Pixels wide(info_.height, info_.width, 2 * info_.channels);
  read_rows(Alpha::kDropped, wide);
  std::size_t max = 0;
  for (std::size_t i = 0; i < wide.size(); i += 2) {
    max = std::max(max, read_value(wide.data() + i));
  }
  return static_cast<int>(max);
}

}  // namespace

std::unique_ptr<Decoder> open_png(EncodedBytes file, const std::string& path) {
  return std::make_unique<PngFile>(file, path);
}

}  // namespace trainer::data
