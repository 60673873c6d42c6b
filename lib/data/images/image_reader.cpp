#include "data/images/image_reader.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "data/images/resize/rows.h"
#include "data/samples/stage_times.h"

namespace trainer::data {
namespace {

// Part of recipe(): changes whenever scaled decoding gives other pixels, so that no cache or
// resumed run mixes them.
constexpr int kScaledDecodeVersion = 2;

// Memory of one thread that is reused for each image.
struct Scratch {
  std::vector<std::uint8_t> file, part;
  Pixels decoded, grey;
};
Scratch& scratch() {
  thread_local Scratch scratch;
  return scratch;
}

}  // namespace

ImageReader::ImageReader(const config::Data& data)
    : limits_{data.max_pixels, data.max_file_size},
      height_(static_cast<int>(data.resize[0])),
      width_(static_cast<int>(data.resize[1])),
      channels_(static_cast<int>(data.channels.value_or(3))),
      interpolation_(data.interpolation),
      antialias_(data.antialias),
      fit_(data.fit),
      crop_fraction_(data.crop_fraction),
      scaled_decode_(data.scaled_decode) {
  if (!data.range) return;
  if (data.range->is_automatic) {
    throw ConfigError(data.loc,
                      "data.range: auto is found in the training split, which was not opened; give "
                      "[low, high]");
  }
  range_ = concat(" range ", data.range->low, ' ', data.range->high);
  levels_ = std::make_shared<const LevelTable>(make_level_table(data.range->low, data.range->high));
}

std::string ImageReader::recipe() const {
  return concat(height_, 'x', width_, 'x', channels_, ' ', static_cast<int>(interpolation_),
                antialias_, static_cast<int>(fit_), ' ', crop_fraction_,
                scaled_decode_ ? kScaledDecodeVersion : 0, range_);
}

std::string ImageReader::limits() const {
  return concat(limits_.max_pixels, ' ', limits_.max_file_size);
}

Geometry ImageReader::fit(int height, int width) const {
  return fit_geometry(height, width, height_, width_, fit_, crop_fraction_);
}

ImageReader::Decoded ImageReader::decode(const StoredImage& image, const Cut& cut,
                                         Scale scale) const {
  {
    const StageTimer timer(ReadStage::kRead);
    read_image_file(image, limits_, scratch().file);
  }
  return decode_bytes(scratch().file, image.describe(), cut, scale);
}

ImageReader::Decoded ImageReader::decode_bytes(std::span<const std::uint8_t> bytes,
                                               const std::string& path, const Cut& cut,
                                               Scale scale) const {
  Scratch& s = scratch();
  const StageTimer timer(ReadStage::kDecode);
  ImageFile file(bytes, path, limits_);
  const Geometry geometry = cut(file.info().height, file.info().width);
  const bool scaled =
      scale == Scale::kReduced && scaled_decode_ && file.info().kind == ImageKind::kJpeg;
  const int reduce = scaled ? decode_reduction(geometry) : 1;
  std::string warning = file.decode(channels_, reduce, s.decoded, levels_.get());
  if (!warning.empty()) warning = concat(printable(path), ": ", printable(warning));
  const ImageInfo& info = file.info();
  const MirroredAxes mirrored = mirrored_axes(info.orientation);
  return {s.decoded,
          reduced(geometry, reduce, {info.height, mirrored.vertical},
                  {info.width, mirrored.horizontal}),
          std::move(warning), reduce};
}

ImageReader::Decoded ImageReader::decode(const StoredImage& image, Scale scale) const {
  return decode(
      image, [this](int height, int width) { return fit(height, width); }, scale);
}

ImageReader::Decoded ImageReader::decode(std::span<const std::uint8_t> file,
                                         const std::string& path, Scale scale) const {
  return decode_bytes(
      file, path, [this](int height, int width) { return fit(height, width); }, scale);
}

void ImageReader::resize(const Pixels& image, const Geometry& geometry, std::uint8_t* out) const {
  const StageTimer timer(ReadStage::kResize);
  const int rows = geometry.vertical.output, columns = geometry.horizontal.output;
  if (rows == height_ && columns == width_) return resize_part(image, geometry, out);
  const std::size_t row_bytes = columns * channels_;
  std::vector<std::uint8_t>& part = scratch().part;
  part.resize(static_cast<std::size_t>(rows) * row_bytes);
  resize_part(image, geometry, part.data());
  std::fill_n(out, image_bytes(), std::uint8_t{0});
  // Python's round(), which Pillow uses: halves to even.
  const auto middle = [](int free) { return static_cast<int>(std::nearbyint(free / 2.0)); };
  const int top = middle(height_ - rows), left = middle(width_ - columns);
  for (int y = 0; y < rows; ++y) {
    std::copy_n(part.data() + static_cast<std::size_t>(y) * row_bytes, row_bytes,
                out + static_cast<std::size_t>(((top + y) * width_ + left) * channels_));
  }
}

void ImageReader::resize_part(const Pixels& image, const Geometry& geometry,
                              std::uint8_t* out) const {
  if (image.channels() == channels_) {
    data::resize(image, geometry.vertical, geometry.horizontal, interpolation_, antialias_, out);
    return;
  }
  // A grey file in a set of RGB images is resized as grey, then its values are repeated.
  const int rows = geometry.vertical.output, columns = geometry.horizontal.output;
  Pixels& grey = scratch().grey;
  grey.reset(rows, columns, 1);
  data::resize(image, geometry.vertical, geometry.horizontal, interpolation_, antialias_,
               grey.data());
  resize_rows().repeat_grey(grey.data(), rows * columns, out);
}

}  // namespace trainer::data
