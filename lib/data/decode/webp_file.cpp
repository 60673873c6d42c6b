#include "data/decode/webp_file.h"

#include <webp/decode.h>

#include "base/error.h"

namespace trainer::data {
namespace {

const char* reason_of(VP8StatusCode status) {
  switch (status) {
    case VP8_STATUS_NOT_ENOUGH_DATA:
      return "is truncated";
    case VP8_STATUS_UNSUPPORTED_FEATURE:
      return "has a feature that libwebp does not know";
    case VP8_STATUS_OUT_OF_MEMORY:
      return "needs more memory than there is";
    default:
      return "is damaged";
  }
}

}  // namespace

WebpFile::WebpFile(EncodedBytes file, const std::string& path) : file_(file), path_(path) {
  WebPBitstreamFeatures features;
  const VP8StatusCode status = WebPGetFeatures(file.data(), file.size(), &features);
  if (status != VP8_STATUS_OK) {
    throw DataError(path_, concat("WebP: ", reason_of(status), " within its header"));
  }
  if (features.has_animation != 0) {
    throw DataError(path_, "WebP: is an animation, which is not read; convert it to a still image");
  }
  info_.kind = ImageKind::kWebp;
  info_.width = features.width;
  info_.height = features.height;
  info_.channels = 3;
}

std::string WebpFile::decode(int, int, Pixels& out) const {
  out.reset(info_.height, info_.width, 3);
  WebPDecoderConfig config;
  if (WebPInitDecoderConfig(&config) == 0) throw std::logic_error("another version of libwebp");
  config.output.colorspace = MODE_RGB;
  config.output.is_external_memory = 1;
  config.output.u.RGBA.rgba = out.data();
  config.output.u.RGBA.stride = static_cast<int>(out.row_bytes());
  config.output.u.RGBA.size = out.size();
  const VP8StatusCode status = WebPDecode(file_.data(), file_.size(), &config);
  WebPFreeDecBuffer(&config.output);
  if (status == VP8_STATUS_OK) return "";
  throw DataError(path_, concat("WebP: ", reason_of(status), "; its image of ", info_.width, " x ",
                                info_.height, " pixels cannot be decoded"));
}

}  // namespace trainer::data
