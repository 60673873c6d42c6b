// Folders of small images, and data sets of them, for the tests of this folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/files/files.h"
#include "base/numbers/random.h"
#include "config/config.h"
#include "data/open.h"
#include "data/samples/loader.h"

namespace trainer::data {

namespace fs = std::filesystem;

// A binary PNM, the simplest image file there is.
inline void write_image(const fs::path& path, int height, int width, int seed, bool grey = false) {
  fs::create_directories(path.parent_path());
  std::string text = concat(grey ? "P5 " : "P6 ", width, ' ', height, " 255\n");
  Random random(static_cast<std::uint64_t>(seed), Stream::kSynthetic);
  for (int i = 0; i < height * width * (grey ? 1 : 3); ++i) {
    text += static_cast<char>(random.below(256));
  }
  std::ofstream(path, std::ios::binary) << text;
}

inline void write_text(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

// Two classes with `count` files each of varying size.
inline void write_folder(const fs::path& folder, int count, int seed = 0) {
  for (const char* name : {"cat", "dog"}) {
    for (int i = 0; i < count; ++i) {
      const int number = ++seed;
      write_image(folder / name / concat("deep/", name, number, ".ppm"), 10 + number % 7,
                  12 + number % 5, number);
    }
  }
}

inline config::Data build_config(const fs::path& path) {
  config::Data config;
  config.format = config::DataFormat::kImageFolder;
  config.path = path.string();
  config.resize = {8, 6};
  return config;
}

inline Bytes load_image(const Dataset& set, std::int64_t index, std::int64_t epoch = kNoEpoch) {
  Bytes image(static_cast<std::size_t>(set.spec().image_shape.elements()));
  std::int32_t label = -1;
  set.get(index, epoch, image.data(), &label);
  return image;
}

inline std::vector<std::int32_t> labels(const Dataset& set) {
  std::vector<std::int32_t> result;
  Bytes image(static_cast<std::size_t>(set.spec().image_shape.elements()));
  for (std::int64_t i = 0; i < set.size(); ++i) {
    set.get(i, image.data(), &result.emplace_back());
  }
  return result;
}

// All batches of two epochs, read by this many threads.
inline std::vector<Bytes> batches(const Dataset& set, std::int64_t threads,
                                  std::int64_t first = 0) {
  LoaderOptions options;
  options.batch_size = 3;
  options.shuffle = true;
  options.threads = threads;
  options.first_step = first;
  options.end_step = 2 * batches_per_epoch(set.size(), 3);
  std::vector<Bytes> result;
  const auto loader = make_loader(set, options);
  while (const Batch* batch = loader->next()) {
    const auto* from = static_cast<const std::uint8_t*>(batch->images);
    result.emplace_back(from, from + batch->range.count * set.spec().image_shape.elements());
    loader->release();
  }
  return result;
}

// Returns the message of the error of opening the data sets of a config, "" without an error.
inline std::string find_open_error(const config::Data& config) {
  try {
    open_datasets(config, 1);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace trainer::data
