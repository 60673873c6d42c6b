// PNM, BMP, GIF and PNG files built byte by byte. What is expected of them is what Pillow
// makes of the same bytes, unless a comment states otherwise.
#include <doctest/doctest.h>
#include <libdeflate.h>

#include <algorithm>
#include <string>

#include "base/error.h"
#include "base/files/files.h"
#include "data/decode/image_file.h"

namespace trainer::data::formats_test {
namespace {

// ---- Building files ----

Bytes to_bytes(const std::string& text) { return {text.begin(), text.end()}; }
void add(Bytes& to, const Bytes& more) { to.insert(to.end(), more.begin(), more.end()); }
void add_little(Bytes& to, std::uint32_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) to.push_back(static_cast<std::uint8_t>(value >> (8 * i)));
}
void add_big(Bytes& to, std::uint32_t value, int bytes) {
  for (int i = bytes; i-- > 0;) to.push_back(static_cast<std::uint8_t>(value >> (8 * i)));
}

struct Bmp {
  int width = 3, height = 2, bits = 24;
  std::uint32_t compression = 0;
  Bytes colours = {};  // palette or masks
  bool os2 = false;
};
Bytes bmp(const Bmp& header, const Bytes& pixels) {
  Bytes file = to_bytes("BM");
  const std::uint32_t size = header.os2 ? 12 : 40;
  const auto start = 14 + size + static_cast<std::uint32_t>(header.colours.size());
  add_little(file, start + static_cast<std::uint32_t>(pixels.size()), 4);
  add_little(file, 0, 4);
  add_little(file, start, 4);
  add_little(file, size, 4);
  add_little(file, static_cast<std::uint32_t>(header.width), header.os2 ? 2 : 4);
  add_little(file, static_cast<std::uint32_t>(header.height), header.os2 ? 2 : 4);
  add_little(file, 1, 2);
  add_little(file, static_cast<std::uint32_t>(header.bits), 2);
  if (!header.os2) {
    add_little(file, header.compression, 4);
    for (int i = 0; i < 5; ++i) add_little(file, 0, 4);
  }
  add(file, header.colours);
  add(file, pixels);
  return file;
}
// Colour i is {10 i, 10 i + 1, 10 i + 2}.
Bytes bmp_palette(int colours, int bytes) {
  Bytes palette;
  for (int i = 0; i < colours; ++i) {
    for (const int c : {2, 1, 0}) palette.push_back(static_cast<std::uint8_t>(10 * i + c));
    if (bytes == 4) palette.push_back(0);
  }
  return palette;
}

// LZW without compression: 9 bits per pixel, the table cleared often enough.
Bytes gif_pixels(const Bytes& indices) {
  Bytes codes;
  std::uint32_t held = 0;
  int bits = 0;
  const auto put = [&](std::uint32_t code) {
    held |= code << bits;
    for (bits += 9; bits >= 8; bits -= 8, held >>= 8) {
      codes.push_back(static_cast<std::uint8_t>(held));
    }
  };
  for (std::size_t i = 0; i < indices.size(); ++i) {
    if (i % 100 == 0) put(256);
    put(indices[i]);
  }
  put(257);
  codes.push_back(static_cast<std::uint8_t>(held));
  Bytes blocks{8};
  for (std::size_t i = 0; i < codes.size(); i += 255) {
    const std::size_t count = std::min<std::size_t>(255, codes.size() - i);
    blocks.push_back(static_cast<std::uint8_t>(count));
    blocks.insert(blocks.end(), codes.begin() + static_cast<std::ptrdiff_t>(i),
                  codes.begin() + static_cast<std::ptrdiff_t>(i + count));
  }
  blocks.push_back(0);
  return blocks;
}
struct Gif {
  int width = 4, height = 2, left = 0, top = 0, frame_width = 4, frame_height = 2;
  int transparent = -1;
  bool interlaced = false;
};
// Colour i of 16 is {i, 2 i, 3 i}.
Bytes gif(const Gif& header, const Bytes& indices) {
  Bytes file = to_bytes("GIF89a");
  add_little(file, static_cast<std::uint32_t>(header.width), 2);
  add_little(file, static_cast<std::uint32_t>(header.height), 2);
  add(file, {0x83, 0, 0});
  for (std::uint8_t i = 0; i < 16; ++i) {
    add(file, {i, static_cast<std::uint8_t>(2 * i), static_cast<std::uint8_t>(3 * i)});
  }
  if (header.transparent >= 0) {
    add(file, {'!', 0xF9, 4, 1, 0, 0, static_cast<std::uint8_t>(header.transparent), 0});
  }
  file.push_back(',');
  for (const int value : {header.left, header.top, header.frame_width, header.frame_height}) {
    add_little(file, static_cast<std::uint32_t>(value), 2);
  }
  file.push_back(header.interlaced ? 0x40 : 0);
  add(file, gif_pixels(indices));
  file.push_back(';');
  return file;
}

void add_chunk(Bytes& file, const std::string& type, const Bytes& content) {
  Bytes chunk = to_bytes(type);
  add(chunk, content);
  add_big(file, static_cast<std::uint32_t>(content.size()), 4);
  add(file, chunk);
  add_big(file, libdeflate_crc32(0, chunk.data(), chunk.size()), 4);
}
struct Png {
  int width = 3, height = 2, bits = 8, colours = 2;  // 0 grey, 2 RGB, 3 palette, 4 grey and alpha
  Bytes palette = {}, exif = {};
  bool exif_last = false;
  std::vector<std::string> texts = {};                           // of iTXt chunks
  std::vector<std::pair<const char*, std::string>> chunks = {};  // more chunks: type and content
};
Bytes zlib(const Bytes& bytes) {
  libdeflate_compressor* compressor = libdeflate_alloc_compressor(6);
  Bytes packed(libdeflate_zlib_compress_bound(compressor, bytes.size()));
  packed.resize(libdeflate_zlib_compress(compressor, bytes.data(), bytes.size(), packed.data(),
                                         packed.size()));
  libdeflate_free_compressor(compressor);
  return packed;
}

// `rows`: each with the number of its filter before it.
Bytes png(const Png& header, const Bytes& rows) {
  Bytes file{0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'}, ihdr;
  add_big(ihdr, static_cast<std::uint32_t>(header.width), 4);
  add_big(ihdr, static_cast<std::uint32_t>(header.height), 4);
  add(ihdr,
      {static_cast<std::uint8_t>(header.bits), static_cast<std::uint8_t>(header.colours), 0, 0, 0});
  add_chunk(file, "IHDR", ihdr);
  if (!header.palette.empty()) add_chunk(file, "PLTE", header.palette);
  if (!header.exif.empty() && !header.exif_last) add_chunk(file, "eXIf", header.exif);
  add_chunk(file, "IDAT", zlib(rows));
  for (const std::string& text : header.texts) add_chunk(file, "iTXt", to_bytes(text));
  for (const auto& [type, content] : header.chunks) add_chunk(file, type, to_bytes(content));
  if (!header.exif.empty() && header.exif_last) add_chunk(file, "eXIf", header.exif);
  add_chunk(file, "IEND", {});
  return file;
}

// ---- Decoding them ----

// "3x2x3 0 1 2 ...": width, height, channels and numbers; or the error after the file's name.
std::string decoded(const Bytes& file) {
  try {
    Pixels image;
    ImageFile(file, "x", {}).decode(3, 1, image);
    std::string text = concat(image.width(), 'x', image.height(), 'x', image.channels());
    for (std::size_t i = 0; i < image.size(); ++i) text += concat(' ', int{image.data()[i]});
    return text;
  } catch (const DataError& error) {
    return std::string(error.what()).substr(3);
  }
}

bool is_image(const std::string& text) { return text[0] >= '0' && text[0] <= '9'; }

std::string rgb(int width, int height, const std::vector<int>& numbers) {
  std::string text = concat(width, 'x', height, "x3");
  for (const int number : numbers) text += concat(' ', number);
  return text;
}

// Every prefix without the last `spare` bytes is rejected with that reason.
void check_prefixes(const Bytes& file, std::size_t from, std::size_t spare = 0) {
  CHECK(is_image(decoded(file)));
  for (std::size_t size = from; size + spare < file.size(); ++size) {
    CAPTURE(size);
    const std::string error =
        decoded({file.begin(), file.begin() + static_cast<std::ptrdiff_t>(size)});
    CHECK(error.find(" is truncated: ") != std::string::npos);
  }
}

// Numbers 1, 2, 3, ...
Bytes counted(int count) {
  Bytes bytes;
  for (int i = 1; i <= count; ++i) bytes.push_back(static_cast<std::uint8_t>(i));
  return bytes;
}

}  // namespace

TEST_CASE("PNM: comments and ranges of numbers are read, and every truncation is an error") {
  Bytes file = to_bytes("P6 # a comment\n# another\n3 2\n255\n");
  const std::size_t header = file.size();
  add(file, counted(18));
  CHECK(decoded(file) == "3x2x3 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18");
  check_prefixes(file, 2);
  CHECK(decoded({file.begin(), file.begin() + static_cast<std::ptrdiff_t>(header + 5)}) ==
        concat("PNM: is truncated: the file ends after ", header + 5,
               " bytes; 13 bytes of its pixels are missing"));
  Bytes few = to_bytes("P5 4 1 15\n");
  add(few, {0, 1, 7, 15});
  CHECK(decoded(few) == "4x1x1 0 17 119 255");
  Bytes many = to_bytes("P5 2 1 65535\n");
  add(many, {0x80, 0x00, 0xFF, 0xFF});
  CHECK(decoded(many) == "2x1x1 128 255");
  for (const char* space : {"\t", "\n", "\v", "\f", "\r", " \t\n"}) {
    Bytes spaced = to_bytes(concat("P5", space, "2", space, "1", space, "255"));
    add(spaced, {'\t', 7, 8});
    CHECK(decoded(spaced) == "2x1x1 7 8");
  }
  for (const char space : {'\b', '\x0E', '\0'}) {
    Bytes spaced = to_bytes("P5 2 1 255");
    add(spaced, {static_cast<std::uint8_t>(space), 7, 8});
    CHECK(decoded(spaced) == "PNM: the header's largest value is not a number");
  }
  CHECK(decoded(to_bytes("P5 2 x 255\nabcd")) == "PNM: the header's height is not a number");
  CHECK(decoded(to_bytes("P5 99999999999 1 255\n")).find("width is more than") !=
        std::string::npos);
  CHECK(decoded(to_bytes("P5 2222222222 1 255\nab")) ==
        "PNM: the header's width is more than 268435456");
  CHECK(decoded(to_bytes("P5 2 1 0\nab")) == "PNM: the header's largest value is 0");
}

TEST_CASE("PNM: plain files and files of bits are read, and every truncation is an error") {
  CHECK(decoded(to_bytes("P2\n# a comment\n3 2\n15\n0 5 10\n15 # 9\n10 5\n")) ==
        "3x2x1 0 85 170 255 170 85");
  CHECK(decoded(to_bytes("P3 1 2 255 1 2 3 4 5 6")) == rgb(1, 2, {1, 2, 3, 4, 5, 6}));
  CHECK(decoded(to_bytes("P3 1 1 65535 65535 0 32768")) == rgb(1, 1, {255, 0, 128}));
  CHECK(decoded(to_bytes("P1 3 2\n101\n0 1 0\n")) == "3x2x1 0 255 0 255 0 255");
  Bytes bits = to_bytes("P4\n10 2\n");
  add(bits, {0xAA, 0x80, 0x55, 0x40});
  CHECK(decoded(bits) == "10x2x1 0 255 0 255 0 255 0 255 0 255 255 0 255 0 255 0 255 0 255 0");
  check_prefixes(bits, 2);
  CHECK(decoded(to_bytes("P2 3 2 15 0 5 10 15 10")) ==
        "PNM: is truncated: it has 5 numbers instead of 6");
  CHECK(decoded(to_bytes("P2 2 2 15 10 15 10   ")) ==
        "PNM: is truncated: it has 3 numbers instead of 4");
  CHECK(decoded(to_bytes("P2 2 1 15 1 16")) == "PNM: number 1 is more than the largest value 15");
  CHECK(decoded(to_bytes("P2 2 1 15 1 -1")) == "PNM: number 1 of its pixels is not a number");
  CHECK(decoded(to_bytes("P1 2 1 12")) == "PNM: number 1 is more than the largest value 1");
  CHECK(decoded(to_bytes("P2 9999 9999 255 1")).find("cannot hold its 99980001 numbers") !=
        std::string::npos);
}

TEST_CASE("image file: the error of an unsupported format names it and a conversion") {
  for (const auto& [start, name] : {std::pair{"8BPS", "Photoshop (PSD)"}, std::pair{"PF\n", "PFM"},
                                    std::pair{"Pf\n", "PFM"}, std::pair{"P7\n", "PAM"}}) {
    CHECK(decoded(to_bytes(concat(start, "xxxxxxxxxxxxxxxx"))) ==
          concat("is a ", name,
                 " file, which is not supported; convert it to PNG or JPEG, for example with "
                 "ImageMagick: magick FILE NEW.png"));
  }
  Bytes tga(40);
  add(tga, to_bytes(std::string("TRUEVISION-XFILE.\0", 18)));
  CHECK(decoded(tga).starts_with("is a TGA file"));
  const auto error_with_name = [](const std::string& name) -> std::string {
    try {
      ImageFile(Bytes(40, 1), name, {});
    } catch (const DataError& error) {
      return error.what();
    }
    return "";
  };
  CHECK(error_with_name("a.TGA").starts_with("a.TGA: is a TGA file"));
  CHECK(error_with_name("a.png").starts_with("a.png: is not a supported image format"));
}

TEST_CASE(
    "BMP: directions, OS/2, palettes, masks and runs are read, and every truncation is an error") {
  const Bytes stored{3,  2,  1,  6,  5,  4,  9,  8,  7,  0, 0, 0,
                     12, 11, 10, 15, 14, 13, 18, 17, 16, 0, 0, 0};
  const std::vector<int> first{1, 2, 3, 4, 5, 6, 7, 8, 9},
      second{10, 11, 12, 13, 14, 15, 16, 17, 18};
  const auto rows = [](std::vector<int> a, const std::vector<int>& b) {
    a.insert(a.end(), b.begin(), b.end());
    return rgb(3, 2, a);
  };
  Bmp header;
  CHECK(decoded(bmp(header, stored)) == rows(second, first));
  // The padding of the last row may be missing.
  check_prefixes(bmp(header, stored), 2, 3);
  header.height = -2;
  CHECK(decoded(bmp(header, stored)) == rows(first, second));
  header.height = 2;
  header.os2 = true;
  CHECK(decoded(bmp(header, stored)) == rows(second, first));
  check_prefixes(bmp(header, stored), 2, 3);

  const auto colours = [](const std::vector<int>& indices) {
    std::vector<int> numbers;
    for (const int i : indices) {
      for (int c = 0; c < 3; ++c) numbers.push_back(10 * i + c);
    }
    return rgb(3, 2, numbers);
  };
  Bmp indexed{3, 2, 8, 0, bmp_palette(256, 4)};
  CHECK(decoded(bmp(indexed, {1, 2, 3, 0, 4, 5, 6, 0})) == colours({4, 5, 6, 1, 2, 3}));
  indexed = {3, 2, 8, 0, bmp_palette(256, 3), true};
  CHECK(decoded(bmp(indexed, {1, 2, 3, 0, 4, 5, 6, 0})) == colours({4, 5, 6, 1, 2, 3}));
  const Bmp nibbles{3, 2, 4, 0, bmp_palette(16, 4)};
  CHECK(decoded(bmp(nibbles, {0x12, 0x30, 0, 0, 0x45, 0x60, 0, 0})) == colours({4, 5, 6, 1, 2, 3}));
  const Bmp bits{3, 2, 1, 0, bmp_palette(2, 4)};
  CHECK(decoded(bmp(bits, {0xA0, 0, 0, 0, 0x40, 0, 0, 0})) == colours({0, 1, 0, 1, 0, 1}));

  const Bmp runs8{3, 2, 8, 1, bmp_palette(256, 4)};
  // Two 7s and an 8; then three as they are, padded.
  const Bytes packed8{2, 7, 1, 8, 0, 0, 0, 3, 1, 2, 3, 0, 0, 1};
  CHECK(decoded(bmp(runs8, packed8)) == colours({1, 2, 3, 7, 7, 8}));
  check_prefixes(bmp(runs8, packed8), 2);
  // Two pixels to the right and a row up.
  CHECK(decoded(bmp(runs8, {1, 7, 0, 2, 1, 1, 1, 8, 0, 0, 0, 1})) == colours({0, 0, 8, 7, 0, 0}));
  CHECK(decoded(bmp(runs8, {2, 7, 1, 8, 0, 0, 0, 1})) ==
        "BMP: is damaged: its pixels end in row 2 of 2");
  const Bmp runs4{3, 2, 4, 2, bmp_palette(16, 4)};
  CHECK(decoded(bmp(runs4, {3, 0x12, 0, 0, 0, 3, 0x45, 0x60, 0, 1})) ==
        colours({4, 5, 6, 1, 2, 1}));

  Bmp masked{1, 1, 16, 3};
  for (const std::uint32_t mask : {0xF800u, 0x7E0u, 0x1Fu}) add_little(masked.colours, mask, 4);
  CHECK(decoded(bmp(masked, {0x1F, 0x04, 0, 0})) == rgb(1, 1, {0, 129, 255}));
  CHECK(decoded(bmp({1, 1, 16}, {0x1F, 0x7C, 0, 0})) == rgb(1, 1, {255, 0, 255}));
  CHECK(decoded(bmp({1, 1, 32}, {3, 2, 1, 99})) == rgb(1, 1, {1, 2, 3}));
  CHECK(decoded(bmp({3, 2, 24, 4}, stored)).starts_with("BMP: uses compression 4"));
}

TEST_CASE(
    "GIF: transparent pixels keep their colour, and small, interlaced and cut frames are read") {
  const auto colours = [](int width, int height, const Bytes& indices) {
    std::vector<int> numbers;
    for (const int i : indices) {
      for (int c = 1; c <= 3; ++c) numbers.push_back(c * i);
    }
    return rgb(width, height, numbers);
  };
  const Bytes indices{1, 2, 3, 4, 5, 6, 7, 8};
  Gif header;
  CHECK(decoded(gif(header, indices)) == colours(4, 2, indices));
  check_prefixes(gif(header, indices), 4, 4);  // but for what follows the last pixel
  header.transparent = 5;
  CHECK(decoded(gif(header, indices)) == colours(4, 2, indices));
  // Around a smaller frame lies the transparent colour, or the first one.
  header = {4, 3, 1, 1, 2, 1, 9, false};
  CHECK(decoded(gif(header, {1, 2})) == colours(4, 3, {9, 9, 9, 9, 9, 1, 2, 9, 9, 9, 9, 9}));
  header.transparent = -1;
  CHECK(decoded(gif(header, {1, 2})) == colours(4, 3, {0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0}));
  header = {1, 9, 0, 0, 1, 9, -1, true};
  CHECK(decoded(gif(header, {1, 2, 3, 4, 5, 6, 7, 8, 9})) ==
        colours(1, 9, {1, 6, 4, 7, 3, 8, 5, 9, 2}));
  header = {1, 1, 0, 0, 4, 2, -1, false};  // larger than the screen
  CHECK(decoded(gif(header, indices)) == colours(4, 2, indices));
  CHECK(decoded(gif(Gif{}, {1, 2, 3, 200, 5, 6, 7, 8})).find(" 0 0 0 5 10 15") !=
        std::string::npos);
}

TEST_CASE("PNG: kinds of pixels are read, and every truncation and flipped bit is an error") {
  const Bytes rows{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 10, 11, 12, 3, 3, 3, 3, 3, 3};
  const std::string expected =
      rgb(3, 2, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18});
  const Bytes file = png({}, rows);
  CHECK(decoded(file) == expected);
  check_prefixes(file, 8);
  for (std::size_t bit = 0; bit < 8 * file.size(); ++bit) {
    CAPTURE(bit);
    Bytes damaged = file;
    damaged[bit / 8] ^= static_cast<std::uint8_t>(1 << bit % 8);
    CHECK(!is_image(decoded(damaged)));
  }
  CHECK(decoded(png({2, 1, 8, 3, {1, 2, 3, 4, 5, 6}}, {0, 1, 0})) == rgb(2, 1, {4, 5, 6, 1, 2, 3}));
  CHECK(decoded(png({4, 1, 2, 0}, {0, 0x1B})) == "4x1x1 0 85 170 255");
  CHECK(decoded(png({2, 1, 8, 4}, {0, 7, 0, 8, 255})) == "2x1x1 7 8");
  CHECK(decoded(png({1, 1, 16, 2}, {0, 1, 255, 2, 255, 3, 255})) == rgb(1, 1, {1, 2, 3}));
  CHECK(decoded(png({1, 1, 8, 6}, {0, 1, 2, 3, 0})) == rgb(1, 1, {1, 2, 3}));
}

TEST_CASE("PNG: the orientation of eXIf turns the image, at any position of the chunk") {
  const std::string stored = "abcdef";
  Png header;
  header.colours = 0;
  for (const bool last : {false, true}) {
    for (int orientation = 1; orientation <= 8; ++orientation) {
      CAPTURE(orientation);
      header.exif = to_bytes(std::string("MM\0*\0\0\0\10\0\1\1\22\0\3\0\0\0\1\0", 19));
      header.exif.push_back(static_cast<std::uint8_t>(orientation));
      add_big(header.exif, 0, 4);
      add_big(header.exif, 0, 4);
      header.exif_last = last;
      const Bytes file = png(header, {0, 'a', 'b', 'c', 0, 'd', 'e', 'f'});
      Pixels expected(2, 3, 1), found;
      std::copy(stored.begin(), stored.end(), expected.data());
      orient(expected, orientation);
      ImageFile image(file, "x", {});
      CHECK(image.info().width == expected.width());
      CHECK(image.info().height == expected.height());
      image.decode(3, 1, found);
      REQUIRE(found.width() == expected.width());
      CHECK(std::equal(found.data(), found.data() + 6, expected.data()));
    }
  }
}

TEST_CASE("PNG: the orientation of XMP turns the image, unless there is an eXIf chunk") {
  const auto size_with = [](const std::string& packet, char compressed, const Bytes& exif,
                            const std::string& language = "") {
    Png header;
    header.colours = 0;
    header.exif = exif;
    header.texts = {concat(std::string("XML:com.adobe.xmp\0", 18), compressed, '\0', language, '\0',
                           language, '\0', packet),
                    std::string("Comment\0\0\0\0\0text", 16)};
    const Bytes file = png(header, {0, 'a', 'b', 'c', 0, 'd', 'e', 'f'});
    return decoded(file);
  };
  const std::string stored = "3x2x1 97 98 99 100 101 102", turned = "2x3x1 100 97 101 98 102 99";
  CHECK(size_with("<a tiff:Orientation=\"6\"/>", '\0', {}) == turned);
  CHECK(size_with("<a tiff:Orientation='6'/>", '\0', {}) == turned);
  CHECK(size_with("<tiff:Orientation>6</tiff:Orientation>", '\0', {}) == turned);
  CHECK(size_with("<a tiff:Orientation=\"1\"/>", '\0', {}) == stored);
  CHECK(size_with("<a tiff:Orientation=\"9\"/>", '\0', {}) == stored);
  CHECK(size_with("<a tiff:Orientation=", '\0', {}) == stored);
  CHECK(size_with("<a xmp:Orientation=\"6\"/>", '\0', {}) == stored);
  CHECK(size_with("<a tiff:Orientation=\"6\"/>", '\1', {}) == stored);
  const auto compress = [](const std::string& packet) {
    const Bytes packed = zlib(to_bytes(packet));
    return std::string(packed.begin(), packed.end());
  };
  const std::string packed = compress("<a tiff:Orientation=\"6\"/>");
  CHECK(size_with(packed, '\1', {}) == turned);
  CHECK(size_with(packed, '\1', {}, "de") == turned);
  CHECK(size_with(packed.substr(0, 5), '\1', {}) == stored);
  // Inflated texts have at most 1 MiB.
  std::string long_packet = "<a tiff:Orientation=\"6\"/>";
  long_packet.resize(std::size_t{1} << 20, ' ');
  CHECK(size_with(compress(long_packet), '\1', {}) == turned);
  CHECK(size_with(compress(long_packet + ' '), '\1', {}) == stored);
  Bytes upright = to_bytes(std::string("MM\0*\0\0\0\10\0\1\1\22\0\3\0\0\0\1\0\1", 20));
  add_big(upright, 0, 4);
  add_big(upright, 0, 4);
  CHECK(size_with("<a tiff:Orientation=\"6\"/>", '\0', upright) == stored);
  upright[11] = 0x13;  // another tag: EXIF without an orientation leaves that of XMP
  CHECK(size_with("<a tiff:Orientation=\"6\"/>", '\0', upright) == turned);
}

TEST_CASE("PNG: the orientation of EXIF in a text, as ImageMagick writes it, turns the image") {
  const auto decoded_with = [](const char* type, const std::string& content,
                               const std::vector<std::string>& texts = {}) {
    Png header;
    header.colours = 0;
    header.texts = texts;
    header.chunks = {{type, content}};
    return decoded(png(header, {0, 'a', 'b', 'c', 0, 'd', 'e', 'f'}));
  };
  const std::string stored = "3x2x1 97 98 99 100 101 102", turned = "2x3x1 100 97 101 98 102 99";
  const std::string key("Raw profile type exif\0", 22);
  const std::string lines =
      "\nexif\n      32\n4578696600004d4d002a0000000800010112000300\n00000100060000000000000000\n";
  CHECK(decoded_with("tEXt", key + lines) == turned);
  CHECK(decoded_with("tEXt", std::string("Raw profile type APP1\0", 22) + lines) == turned);
  const Bytes packed = zlib(to_bytes(lines));
  const std::string method(1, '\0');
  CHECK(decoded_with("zTXt", key + method + std::string(packed.begin(), packed.end())) == turned);
  // One profile and one XMP packet are read per file: thousands of texts would take long.
  const std::string profile = key + method + std::string(packed.begin(), packed.end());
  const auto decoded_after = [&](const char* type, const std::string& first,
                                 const std::string& second) {
    Png header;
    header.colours = 0;
    header.chunks = {{type, first}, {type, second}};
    return decoded(png(header, {0, 'a', 'b', 'c', 0, 'd', 'e', 'f'}));
  };
  CHECK(decoded_after("zTXt", profile, key + method + "damaged") == turned);
  CHECK(decoded_after("zTXt", key + method + "damaged", profile) == stored);
  CHECK(decoded_after("zTXt", std::string("Comment\0\0damaged", 16), profile) == turned);
  const std::string packet("XML:com.adobe.xmp\0\0\0\0\0", 22);
  const std::string turning = packet + "<a tiff:Orientation=\"6\"/>";
  CHECK(decoded_after("iTXt", turning, packet + "<a/>") == turned);
  CHECK(decoded_after("iTXt", packet + "<a/>", turning) == stored);
  // EXIF counts before XMP.
  const std::string xmp =
      std::string("XML:com.adobe.xmp\0\0\0\0\0", 22) + "<a tiff:Orientation=\"1\"/>";
  CHECK(decoded_with("tEXt", key + lines, {xmp}) == turned);
  for (const std::string& other :
       {std::string("Raw profile type iptc\0", 22) + lines, key, key + "\nexif\n32\n45xx",
        key + "\nexif\n", std::string("Raw profile type exif")}) {
    CAPTURE(other);
    CHECK(decoded_with("tEXt", other) == stored);
    CHECK(decoded_with("zTXt", other) == stored);
  }
}

TEST_CASE(
    "BMP: pixels are read behind the palette where their offset is inside header or palette") {
  const Bytes right = bmp({3, 2, 8, 0, bmp_palette(256, 4)}, {1, 2, 3, 0, 4, 5, 6, 0});
  REQUIRE(is_image(decoded(right)));
  for (const std::uint8_t place : {0, 14, 54}) {
    Bytes file = right;
    file[10] = place;
    file[11] = 0;
    CAPTURE(int{place});
    CHECK(decoded(file) == decoded(right));
  }
}

TEST_CASE("image file: many pixels in a small file are an error before memory is allocated") {
  Png header;
  header.width = header.height = 9000;
  CHECK(decoded(png(header, {0, 1, 2, 3})).find("cannot hold 9000 x 9000 pixels") !=
        std::string::npos);
  CHECK(decoded(to_bytes("P6 9000 9000 255\nabc")).find("is truncated") != std::string::npos);
}

}  // namespace trainer::data::formats_test
