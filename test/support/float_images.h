// Data of float images in a temporary folder, and a config that reads it.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <vector>

#include "base/files/files.h"
#include "config/config.h"
#include "support/source_files.h"

namespace trainer::test {

// An IDX file of float32.
inline void write_floats(const Path& path, const std::vector<std::uint8_t>& dims, float first,
                         float step) {
  Bytes bytes{0, 0, 0x0D, static_cast<std::uint8_t>(dims.size())};
  std::uint32_t count = 1;
  for (const std::uint8_t dim : dims) {
    bytes.insert(bytes.end(), {0, 0, 0, dim});
    count *= dim;
  }
  for (std::uint32_t i = 0; i < count; ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(first + static_cast<float>(i % 8) * step);
    for (int shift = 24; shift >= 0; shift -= 8) {
      bytes.push_back(static_cast<std::uint8_t>(bits >> shift));
    }
  }
  write_file_atomic(path, bytes);
}

struct FloatImageFiles {
  TemporaryFolder folder;
  config::Config config;

  explicit FloatImageFiles(float step, const std::string& data = "", bool float_labels = false) {
    write_floats(folder.path() / "images", {8, 2, 2}, 0, step);
    if (float_labels) {
      write_floats(folder.path() / "labels", {8}, 0, 1);
    } else {
      write_file_atomic(folder.path() / "labels",
                        Bytes{0, 0, 8, 1, 0, 0, 0, 8, 0, 1, 2, 0, 1, 2, 0, 1});
    }
    const std::string at = folder.path().string();
    config = parsed(
        "model: {layers: [flatten, dense: 3]}\ntrain: {epochs: 1}\ndata: {train: {images: " + at +
        "/images, labels: " + at + "/labels}" + data + "}\n");
  }
  static config::Config parsed(const std::string& text) {
    return config::parse_config(text, "floats.yaml", {}, {}).config;
  }
};

}  // namespace trainer::test
