#include "data/images/scaled_decode.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "base/files/files.h"
#include "data/check.h"
#include "data/decode/encoded_jpeg.h"
#include "data/decode/image_file.h"
#include "data/images/image_files.h"
#include "data/open.h"

namespace trainer::data::scaled_decode_test {

TEST_CASE("scaled decoding: its distance from decoding in full is measured and reported") {
  const TemporaryFolder folder;
  write_folder(folder.path() / "train", 2);
  Random random(3, Stream::kSynthetic);
  for (const std::string name : {"cat/a.jpg", "dog/b.jpg"}) {
    write_file_atomic(folder.path() / "train" / name, encode_jpeg({96, 80, 3}, 60, random));
  }
  config::Data config = build_config(folder.path());
  ImageList list;
  for (const std::string name : {"cat/a.jpg", "dog/b.jpg"}) {
    list.files.push_back({(folder.path() / "train" / name).string()});
  }
  const ScaledDecode found = measure_scaled_decode(list, config);
  CHECK(found.measured == 2);
  CHECK(found.scaled == 2);
  CHECK(found.max > 1);
  CHECK(found.mean > 0);
  CHECK(found.mean < found.max);
  const Datasets sets = open_datasets(config, 1);
  const std::string note = sets.scaled_decode_note();
  CHECK(note.find("are decoded at 1/2, 1/4 or 1/8 of their size") != std::string::npos);
  const DataCheck check = check_images(config, 1, "");
  CHECK(check.splits[0].notes == std::vector<std::string>{note});
  config.scaled_decode = false;
  CHECK(measure_scaled_decode(list, config).scaled == 0);
  CHECK(open_datasets(config, 1).scaled_decode_note() == "");
  CHECK(check_images(config, 1, "").splits[0].notes.empty());
}

// A ramp shows where each pixel comes from: 1.2 levels per column. Without the fraction that the
// last block of 8 pixels stands for, the pixels at one end would be those of 7 columns further on.
TEST_CASE(
    "scaled decoding: a size that is not a multiple of 8 has pixels in place in each orientation") {
  const TemporaryFolder folder;
  const JpegKind kind{97, 145, 1};
  std::vector<std::uint8_t> ramp;
  for (int y = 0; y < kind.height; ++y) {
    for (int x = 0; x < kind.width; ++x) {
      ramp.push_back(static_cast<std::uint8_t>(0.6 * y + 1.2 * x));
    }
  }
  const Bytes jpeg = encode_jpeg(kind, ramp);
  for (int orientation = 1; orientation <= 8; ++orientation) {
    CAPTURE(orientation);
    const fs::path path = folder.path() / "a.jpg";
    write_file_atomic(path, with_orientation(jpeg, orientation));
    ImageList list;
    list.files.push_back({path.string()});
    config::Data config = build_config(folder.path());
    config.channels = 1;
    for (const auto fit : {config::Fit::kStretch, config::Fit::kCrop}) {
      config.fit = fit;
      const ScaledDecode found = measure_scaled_decode(list, config);
      CHECK(found.scaled == 1);
      CHECK(found.mean < 0.7);
      CHECK(found.max <= 3);
    }
  }
}

// What data.antialias promises, against resizing in double precision as tf.image.resize does it.
TEST_CASE("antialias: a JPEG of several times the size is within one level of the pixels in full") {
  const TemporaryFolder folder;
  constexpr int kHeight = 48, kWidth = 60;  // of the file
  Random random(3, Stream::kSynthetic);
  const Bytes jpeg = encode_jpeg({kHeight, kWidth, 3}, 60, random);
  for (const std::string name : {"cat", "dog"}) {
    fs::create_directories(folder.path() / "train" / name);
    write_file_atomic(folder.path() / "train" / name / "a.jpg", jpeg);
  }
  Pixels full;
  ImageFile(jpeg, "a.jpg", {}).decode(3, 1, full);
  for (const bool antialias : {false, true}) {
    config::Data config = build_config(folder.path());
    config.antialias = antialias;
    config.scaled_decode = false;  // as a config that gives antialias has it
    const Datasets sets = open_datasets(config, 1);
    const Bytes image = load_image(*sets.train, 0);
    const auto out_height = static_cast<int>(config.resize[0]);
    const auto out_width = static_cast<int>(config.resize[1]);
    const auto weights = [antialias](int input, int output, int at) {
      const double scale = static_cast<double>(input) / output, widen = antialias ? scale : 1;
      std::vector<double> all(static_cast<std::size_t>(input));
      double sum = 0;
      for (int k = 0; k < input; ++k) {
        const double x = (k + 0.5 - (at + 0.5) * scale) / widen;
        sum += all[static_cast<std::size_t>(k)] = std::max(0.0, 1 - std::abs(x));
      }
      for (double& weight : all) weight /= sum;
      return all;
    };
    double worst = 0;
    for (int y = 0; y < out_height; ++y) {
      const std::vector<double> down = weights(kHeight, out_height, y);
      for (int x = 0; x < out_width; ++x) {
        const std::vector<double> across = weights(kWidth, out_width, x);
        for (int c = 0; c < 3; ++c) {
          double value = 0;
          for (int i = 0; i < kHeight; ++i) {
            for (int j = 0; j < kWidth; ++j) {
              value += down[static_cast<std::size_t>(i)] * across[static_cast<std::size_t>(j)] *
                       full.row(i)[3 * j + c];
            }
          }
          const std::size_t at = static_cast<std::size_t>((y * out_width + x) * 3 + c);
          worst = std::max(worst, std::abs(value - image[at]));
        }
      }
    }
    CHECK(worst <= 1);
  }
}

}  // namespace trainer::data::scaled_decode_test
