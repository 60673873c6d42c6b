#include "data/images/image_reader.h"

#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "data/images/resize/rows.h"
#include "data/samples/stage_times.h"

namespace trainer::data {
namespace {

// Memory of one thread that is reused for each image.
struct Scratch {
  std::vector<std::uint8_t> file;
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
      scaled_decode_(data.scaled_decode) {}

std::string ImageReader::recipe() const {
  return concat(height_, 'x', width_, 'x', channels_, ' ', static_cast<int>(interpolation_),
                antialias_, static_cast<int>(fit_), ' ', crop_fraction_, scaled_decode_);
}

std::string ImageReader::limits() const {
  return concat(limits_.max_pixels, ' ', limits_.max_file_size);
}

Geometry ImageReader::fit(int height, int width) const {
  return fit_geometry(height, width, height_, width_, fit_, crop_fraction_);
}

ImageReader::Decoded ImageReader::decode(const StoredImage& image, const Cut& cut,
                                         Scale scale) const {
  Scratch& s = scratch();
  {
    const StageTimer timer(ReadStage::kRead);
    read_image_file(image, limits_, s.file);
  }
  const StageTimer timer(ReadStage::kDecode);
  const std::string path = image.path.string();
  ImageFile file(s.file, path, limits_);
  const Geometry geometry = cut(file.info().height, file.info().width);
  const bool scaled =
      scale == Scale::kReduced && scaled_decode_ && file.info().kind == ImageKind::kJpeg;
  const int reduce = scaled ? decode_reduction(geometry) : 1;
  std::string warning = file.decode(channels_, reduce, s.decoded);
  if (!warning.empty()) warning = concat(printable(path), ": ", printable(warning));
  return {s.decoded, reduced(geometry, reduce, s.decoded.height(), s.decoded.width()),
          std::move(warning), reduce};
}

ImageReader::Decoded ImageReader::decode(const StoredImage& image, Scale scale) const {
  return decode(
      image, [this](int height, int width) { return fit(height, width); }, scale);
}

void ImageReader::resize(const Pixels& image, const Geometry& geometry, std::uint8_t* out) const {
  const StageTimer timer(ReadStage::kResize);
  if (image.channels() == channels_) {
    data::resize(image, geometry.vertical, geometry.horizontal, interpolation_, antialias_, out);
    return;
  }
  // A grey file in a set of RGB images is resized as grey, then its values are repeated.
  Pixels& grey = scratch().grey;
  grey.reset(height_, width_, 1);
  data::resize(image, geometry.vertical, geometry.horizontal, interpolation_, antialias_,
               grey.data());
  resize_rows().repeat_grey(grey.data(), height_ * width_, out);
}

}  // namespace trainer::data
