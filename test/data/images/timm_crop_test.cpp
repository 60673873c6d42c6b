// The preprocessing of weights gives the pixels of timm's evaluation transform.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "base/error.h"
#include "base/files/files.h"
#include "config/weight_source.h"
#include "data/images/image_reader.h"
#include "data/images/pillow_image.h"
#include "support/skip.h"
#include "support/source_files.h"

namespace trainer::data::timm_crop_test {
namespace {

// An entry of timm_crop.txt, without its pixels.
struct TimmCrop {
  std::string path;
  int height = 0, width = 0, side = 0, stride = 0;
};
std::istream& operator>>(std::istream& in, TimmCrop& entry) {
  return in >> entry.path >> entry.height >> entry.width >> entry.side >> entry.stride;
}

config::Data make_settings(int side) {
  config::Preprocessing preprocessing;
  preprocessing.crop_fraction = 0.95;
  config::Data data;
  data.resize = {side, side};
  data.interpolation = config::Interpolation::kBicubic;
  data.fit = config::Fit::kCrop;
  data.crop_fraction = config::find_crop_fraction(preprocessing, side);
  data.scaled_decode = false;
  return data;
}

// Returns the largest difference between the pixels of the entry, which follow in the table, and
// those of the image.
int find_largest_difference(std::istream& table, const TimmCrop& entry,
                            const std::vector<std::uint8_t>& image) {
  int worst = 0;
  for (int y = 0; y < entry.side; y += entry.stride) {
    for (int x = 0; x < entry.side; x += entry.stride) {
      for (int c = 0; c < 3; ++c) {
        int expected = -1000;
        table >> expected;
        worst = std::max(worst, std::abs(expected - image[(y * entry.side + x) * 3 + c]));
      }
    }
  }
  return worst;
}

}  // namespace

TEST_CASE("bicubic with the crop share 0.95 has the pixels of timm's transform") {
  const char* shared = std::getenv("TRAINER_SHARED_DATA");
  std::istringstream table(read_text_file(test::source_file("test/data/images/timm_crop.txt")));
  int photos = 0, worst = 0;
  for (TimmCrop entry; table >> entry;) {
    CAPTURE(entry.path);
    const ImageReader reader(make_settings(entry.side));
    std::vector<std::uint8_t> out(reader.image_bytes());
    if (entry.path == "-") {
      const Pixels image = make_pillow_image(entry.height, entry.width, 3);
      reader.resize(image,
                    fit_geometry(entry.height, entry.width, entry.side, entry.side,
                                 config::Fit::kCrop, make_settings(entry.side).crop_fraction),
                    out.data());
      CHECK(find_largest_difference(table, entry, out) <= 1);
      if (shared == nullptr) TRAINER_SKIP("TRAINER_SHARED_DATA is not set");
      continue;
    }
    const Path path = Path(shared) / "flowers" / entry.path;
    if (!std::filesystem::exists(path)) TRAINER_SKIP(path.string() + " does not exist");
    const ImageReader::Decoded decoded = reader.decode(path, ImageReader::Scale::kReduced);
    reader.resize(decoded.pixels, decoded.geometry, out.data());
    worst = std::max(worst, find_largest_difference(table, entry, out));
    ++photos;
  }
  CHECK(photos == 10);
  CHECK(worst <= 2);
}

}  // namespace trainer::data::timm_crop_test
