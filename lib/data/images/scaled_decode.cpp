#include "data/images/scaled_decode.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <vector>

#include "base/error.h"
#include "data/images/image_reader.h"

namespace trainer::data {
namespace {

constexpr std::size_t kMeasuredFiles = 8;

// Reads an image as the model gets it. Returns n if its file was decoded at 1 / n of its size.
int read_fitted(const ImageReader& reader, const ListedFile& file,
                std::vector<std::uint8_t>& pixels) {
  const auto decoded = reader.decode(file.stored(), ImageReader::Scale::kReduced);
  reader.resize(decoded.pixels, decoded.geometry, pixels.data());
  return decoded.reduce;
}

}  // namespace

ScaledDecode measure_scaled_decode(const ImageList& list, const config::Data& data) {
  ScaledDecode result;
  if (!data.scaled_decode || data.resize.size() != 2) return result;
  config::Data full_data = data;
  full_data.scaled_decode = false;
  const ImageReader reader(data), full_reader(full_data);
  std::vector<std::uint8_t> pixels(reader.image_bytes()), full_pixels(reader.image_bytes());
  const std::size_t count = std::min(kMeasuredFiles, list.files.size());
  const ImageLimits limits{data.max_pixels, data.max_file_size};
  std::vector<std::uint8_t> bytes;
  double sum = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const ListedFile& file = list.files[i * list.files.size() / count];
    try {
      ++result.measured;
      // Only JPEGs are decoded at a fraction of their size.
      read_image_file(file.stored(), limits, bytes);
      if (ImageFile(bytes, file.path, limits).info().kind != ImageKind::kJpeg) continue;
      const bool is_scaled = read_fitted(reader, file, pixels) > 1;
      if (!is_scaled) continue;
      read_fitted(full_reader, file, full_pixels);
    } catch (const DataError&) {
      --result.measured;
      continue;  // on_error applies when the file is read for training
    }
    ++result.scaled;
    for (std::size_t k = 0; k < pixels.size(); ++k) {
      const int distance = std::abs(int{pixels[k]} - int{full_pixels[k]});
      sum += distance;
      result.max = std::max(result.max, distance);
    }
  }
  if (result.scaled > 0) {
    result.mean = sum / static_cast<double>(result.scaled) / static_cast<double>(pixels.size());
  }
  return result;
}

std::string scaled_decode_note(const ImageList& list, const config::Data& data) {
  const ScaledDecode found = measure_scaled_decode(list, data);
  if (found.scaled == 0) return "";
  return concat("data.scaled_decode: ", found.scaled, " of ", found.measured,
                " measured files are decoded at 1/2, 1/4 or 1/8 of their size; this moves pixels "
                "by ",
                std::round(found.mean * 100) / 100, " levels on average, by ", found.max,
                " at most; give data.antialias or data.scaled_decode: false to decode in full");
}

}  // namespace trainer::data
