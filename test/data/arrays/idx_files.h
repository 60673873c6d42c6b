// Small IDX files for the tests, made by hand, and compressed ones.
#pragma once

#include <libdeflate.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/files/files.h"

namespace trainer::data {

inline Bytes idx_bytes(std::uint8_t type, const std::vector<std::uint32_t>& dims,
                       const Bytes& content) {
  Bytes bytes{0, 0, type, static_cast<std::uint8_t>(dims.size())};
  for (const std::uint32_t dim : dims) {
    for (int shift = 24; shift >= 0; shift -= 8) {
      bytes.push_back(static_cast<std::uint8_t>(dim >> shift));
    }
  }
  bytes.insert(bytes.end(), content.begin(), content.end());
  return bytes;
}

inline Bytes gzip_bytes(const Bytes& content) {
  libdeflate_compressor* compressor = libdeflate_alloc_compressor(6);
  Bytes packed(libdeflate_gzip_compress_bound(compressor, content.size()));
  packed.resize(libdeflate_gzip_compress(compressor, content.data(), content.size(), packed.data(),
                                         packed.size()));
  libdeflate_free_compressor(compressor);
  return packed;
}

// `count` images of 4 x 3 whose pixels all are (7 * index + role) % 251, labelled index % classes.
inline void write_split(const Path& folder, const std::string& prefix, std::uint32_t count,
                        std::uint32_t classes, bool gzip = false, std::uint8_t role = 0) {
  Bytes pixels, labels;
  for (std::uint32_t i = 0; i < count; ++i) {
    pixels.insert(pixels.end(), 12, static_cast<std::uint8_t>((7 * i + role) % 251));
    labels.push_back(static_cast<std::uint8_t>(i % classes));
  }
  const Bytes images = idx_bytes(8, {count, 4, 3}, pixels);
  const Bytes indices = idx_bytes(8, {count}, labels);
  const std::string end = gzip ? ".gz" : "";
  write_file_atomic(folder / (prefix + "-images-idx3-ubyte" + end),
                    gzip ? gzip_bytes(images) : images);
  write_file_atomic(folder / (prefix + "-labels-idx1-ubyte" + end),
                    gzip ? gzip_bytes(indices) : indices);
}

}  // namespace trainer::data
