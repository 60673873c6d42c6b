// JPEG files made by libjpeg.
#pragma once

// jpeglib.h does not include what it needs.
// clang-format off
#include <cstddef>
#include <cstdio>
#include <jpeglib.h>
// clang-format on

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "base/files/files.h"
#include "base/numbers/random.h"

namespace trainer::data {

struct JpegKind {
  int height = 0, width = 0;
  int components = 3;  // 4: CMYK
  int h = 2, v = 2;    // the sampling of luma
  int quality = 75;
  int restart = 0;  // MCUs
  bool optimise = false, progressive = false;
  std::vector<jpeg_scan_info> scans =
      {};               // those of a progressive file, in place of the usual ones
  bool rgb = false;     // stores red, green and blue, which Adobe's marker states
  bool markers = true;  // JFIF's or Adobe's
};

// Smooth shapes with noise of the given size.
inline std::vector<std::uint8_t> picture(const JpegKind& kind, int noise, Random& random) {
  std::vector<std::uint8_t> pixels;
  for (int y = 0; y < kind.height; ++y) {
    for (int x = 0; x < kind.width; ++x) {
      for (int c = 0; c < kind.components; ++c) {
        const int wave = (x * (3 + c) + y * 5) / 2 % 256 + ((x / 9 + y / 7) % 2) * 60;
        const int value =
            wave + static_cast<int>(random.below(2 * static_cast<unsigned>(noise) + 1)) - noise;
        pixels.push_back(static_cast<std::uint8_t>(std::clamp(value, 0, 255)));
      }
    }
  }
  return pixels;
}

// `pixels` are [height, width, components].
inline Bytes encode_jpeg(const JpegKind& kind, std::vector<std::uint8_t> pixels) {
  jpeg_compress_struct cinfo{};
  jpeg_error_mgr errors{};
  cinfo.err = jpeg_std_error(&errors);
  jpeg_create_compress(&cinfo);
  unsigned char* memory = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&cinfo, &memory, &size);
  cinfo.image_width = static_cast<JDIMENSION>(kind.width);
  cinfo.image_height = static_cast<JDIMENSION>(kind.height);
  cinfo.input_components = kind.components;
  cinfo.in_color_space = kind.components == 1   ? JCS_GRAYSCALE
                         : kind.components == 4 ? JCS_CMYK
                                                : JCS_RGB;
  jpeg_set_defaults(&cinfo);
  if (kind.rgb) jpeg_set_colorspace(&cinfo, JCS_RGB);
  if (!kind.markers) cinfo.write_JFIF_header = cinfo.write_Adobe_marker = FALSE;
  jpeg_set_quality(&cinfo, kind.quality, TRUE);
  cinfo.comp_info[0].h_samp_factor = kind.components == 3 ? kind.h : 1;
  cinfo.comp_info[0].v_samp_factor = kind.components == 3 ? kind.v : 1;
  cinfo.restart_interval = static_cast<unsigned>(kind.restart);
  cinfo.optimize_coding = kind.optimise ? TRUE : FALSE;
  if (kind.progressive) jpeg_simple_progression(&cinfo);
  if (!kind.scans.empty()) {
    cinfo.scan_info = kind.scans.data();
    cinfo.num_scans = static_cast<int>(kind.scans.size());
  }
  jpeg_start_compress(&cinfo, TRUE);
  for (int y = 0; y < kind.height; ++y) {
    JSAMPROW row = pixels.data() + y * kind.width * kind.components;
    jpeg_write_scanlines(&cinfo, &row, 1);
  }
  jpeg_finish_compress(&cinfo);
  Bytes file(memory, memory + size);
  jpeg_destroy_compress(&cinfo);
  std::free(memory);
  return file;
}

inline Bytes encode_jpeg(const JpegKind& kind, int noise, Random& random) {
  return encode_jpeg(kind, picture(kind, noise, random));
}

// Returns the file with an EXIF block that gives it this orientation.
inline Bytes with_orientation(Bytes jpeg, int orientation) {
  const Bytes marker{
      0xFF, 0xE1, 0, 34, 'E', 'x', 'i', 'f', 0, 0,
      'M',  'M',  0, 42, 0,   0,   0,   8,   0, 1,
      1,    0x12, 0, 3,  0,   0,   0,   1,   0, static_cast<std::uint8_t>(orientation),
      0,    0,    0, 0,  0,   0};
  jpeg.insert(jpeg.begin() + 2, marker.begin(), marker.end());
  return jpeg;
}

}  // namespace trainer::data
