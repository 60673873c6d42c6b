// Writes PNG and TIFF files with 16-bit values and with any number of bands, by libpng and libtiff.
#pragma once

#include <png.h>
#include <tiffio.h>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

namespace trainer::data {

// An image whose values are given pixel by pixel.
struct DeepImage {
  int height = 1, width = 1, bands = 1;
  std::vector<std::uint16_t> values = {};
};

inline void write_png(const std::filesystem::path& path, const DeepImage& image, int colour_type) {
  std::filesystem::create_directories(path.parent_path());
  std::FILE* file = std::fopen(path.c_str(), "wb");
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  png_init_io(png, file);
  png_set_IHDR(png, info, static_cast<png_uint_32>(image.width),
               static_cast<png_uint_32>(image.height), 16, colour_type, PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_write_info(png, info);
  png_set_swap(png);  // the values are little-endian
  const auto row = static_cast<std::size_t>(image.width * image.bands);
  for (std::size_t y = 0; y < static_cast<std::size_t>(image.height); ++y) {
    png_write_row(png, reinterpret_cast<png_const_bytep>(image.values.data() + y * row));
  }
  png_write_end(png, nullptr);
  png_destroy_write_struct(&png, &info);
  std::fclose(file);
}

struct TiffOptions {
  int bits = 16;
  int photometric = PHOTOMETRIC_MINISBLACK;
  bool is_planar = false;
  int tile = 0;                           // the side of tiles; 0: strips of two rows
  std::vector<std::uint16_t> extra = {};  // kinds of the bands that are not colours
  int compression = COMPRESSION_ADOBE_DEFLATE;
};

inline void write_tiff(const std::filesystem::path& path, const DeepImage& image,
                       const TiffOptions& options = {}) {
  std::filesystem::create_directories(path.parent_path());
  TIFF* tiff = TIFFOpen(path.c_str(), "w");
  TIFFSetField(tiff, TIFFTAG_IMAGEWIDTH, image.width);
  TIFFSetField(tiff, TIFFTAG_IMAGELENGTH, image.height);
  TIFFSetField(tiff, TIFFTAG_BITSPERSAMPLE, options.bits);
  TIFFSetField(tiff, TIFFTAG_SAMPLESPERPIXEL, image.bands);
  TIFFSetField(tiff, TIFFTAG_PHOTOMETRIC, options.photometric);
  TIFFSetField(tiff, TIFFTAG_COMPRESSION, options.compression);
  TIFFSetField(tiff, TIFFTAG_PLANARCONFIG,
               options.is_planar ? PLANARCONFIG_SEPARATE : PLANARCONFIG_CONTIG);
  if (!options.extra.empty()) {
    TIFFSetField(tiff, TIFFTAG_EXTRASAMPLES, static_cast<int>(options.extra.size()),
                 options.extra.data());
  }
  if (options.tile > 0) {
    TIFFSetField(tiff, TIFFTAG_TILEWIDTH, options.tile);
    TIFFSetField(tiff, TIFFTAG_TILELENGTH, options.tile);
  } else {
    TIFFSetField(tiff, TIFFTAG_ROWSPERSTRIP, 2);
  }
  const int planes = options.is_planar ? image.bands : 1;
  const int bands = options.is_planar ? 1 : image.bands;
  const int side = options.tile > 0 ? options.tile : image.width;
  const int block_rows = options.tile > 0 ? options.tile : 1;
  const int bytes = options.bits / 8;
  for (int plane = 0; plane < planes; ++plane) {
    for (int top = 0; top < image.height; top += block_rows) {
      for (int left = 0; left < image.width; left += side) {
        std::vector<std::uint8_t> block;
        for (int y = top; y < top + block_rows; ++y) {
          for (int x = left; x < left + side; ++x) {
            for (int c = 0; c < bands; ++c) {
              const bool is_inside = y < image.height && x < image.width;
              const int at = (y * image.width + x) * image.bands + plane + c;
              const int value = is_inside ? image.values[static_cast<std::size_t>(at)] : 0;
              for (int k = 0; k < bytes; ++k) {
                block.push_back(static_cast<std::uint8_t>(value >> (8 * k)));
              }
            }
          }
        }
        if (options.tile > 0) {
          TIFFWriteTile(tiff, block.data(), static_cast<std::uint32_t>(left),
                        static_cast<std::uint32_t>(top), 0, static_cast<std::uint16_t>(plane));
        } else {
          TIFFWriteScanline(tiff, block.data(), static_cast<std::uint32_t>(top),
                            static_cast<std::uint16_t>(plane));
        }
      }
    }
  }
  TIFFClose(tiff);
}

}  // namespace trainer::data
