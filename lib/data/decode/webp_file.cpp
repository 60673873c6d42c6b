// Reads WebP files with libwebp.
#include <webp/decode.h>

#include <algorithm>
#include <cstring>
#include <initializer_list>

#include "base/error.h"
#include "data/decode/decoder.h"

namespace trainer::data {
namespace {

const char* describe_status(VP8StatusCode status) {
  switch (status) {
    case VP8_STATUS_NOT_ENOUGH_DATA:
      return "is truncated";
    case VP8_STATUS_UNSUPPORTED_FEATURE:
      return "has a feature that libwebp does not support";
    case VP8_STATUS_OUT_OF_MEMORY:
      return "needs more memory than there is";
    default:
      return "is damaged";
  }
}

std::uint32_t u24(const std::uint8_t* p) {
  return std::uint32_t{p[0]} | std::uint32_t{p[1]} << 8 | std::uint32_t{p[2]} << 16;
}

struct Chunk {
  EncodedBytes whole, content;  // with and without its header
};

// Returns the first chunk of a kind in a list of chunks, which may be cut short; empty for none.
Chunk find_chunk(EncodedBytes chunks, std::initializer_list<const char*> kinds) {
  constexpr std::size_t kHeader = 8;
  for (std::size_t at = 0; chunks.size() - at >= kHeader;) {
    const std::uint8_t* chunk = chunks.data() + at;
    const std::size_t size = std::size_t{u24(chunk + 4)} | std::size_t{chunk[7]} << 24;
    if (size > chunks.size() - at - kHeader) break;
    for (const char* kind : kinds) {
      if (std::memcmp(chunk, kind, 4) != 0) continue;
      return {chunks.subspan(at, kHeader + size), chunks.subspan(at + kHeader, size)};
    }
    const std::size_t next = kHeader + size + size % 2;
    if (next > chunks.size() - at) break;
    at += next;
  }
  return {};
}

// Returns the chunks of a file, which follow the twelve bytes of "RIFF", a size and "WEBP".
EncodedBytes skip_riff_header(EncodedBytes file) {
  return file.subspan(std::min<std::size_t>(12, file.size()));
}

// Returns the orientation of EXIF, or else of XMP; 1 if the file has neither.
int find_webp_orientation(EncodedBytes file) {
  const EncodedBytes exif = find_chunk(skip_riff_header(file), {"EXIF"}).content;
  if (!exif.empty()) {
    const bool has_prefix = exif.size() > 6 && std::memcmp(exif.data(), "Exif\0\0", 6) == 0;
    if (const auto found = tiff_orientation(has_prefix ? exif.subspan(6) : exif)) return *found;
  }
  return xmp_orientation(find_chunk(skip_riff_header(file), {"XMP "}).content);
}

class WebpFile final : public Decoder {
 public:
  WebpFile(EncodedBytes file, const std::string& path);
  std::string decode(int channels, int reduce, Pixels& out, const LevelTable* levels) override;

 private:
  void read_first_frame();

  EncodedBytes image_;  // the file, or the bit stream of the first frame
  int left_ = 0, top_ = 0, frame_width_ = 0, frame_height_ = 0;
};

WebpFile::WebpFile(EncodedBytes file, const std::string& path)
    : Decoder(file, path, ImageKind::kWebp), image_(file) {
  WebPBitstreamFeatures features;
  const VP8StatusCode status = WebPGetFeatures(file.data(), file.size(), &features);
  if (status != VP8_STATUS_OK) {
    throw DataError(path_, "WebP: ", describe_status(status), " within its header");
  }
  info_.width = frame_width_ = features.width;
  info_.height = frame_height_ = features.height;
  info_.channels = 3;
  info_.orientation = find_webp_orientation(file);
  // The alpha of a frame of an animation is dropped.
  info_.has_alpha = features.has_alpha != 0 && features.has_animation == 0;
  if (features.has_animation != 0) read_first_frame();
}

void WebpFile::read_first_frame() {
  constexpr std::size_t kFrameHeader = 16;
  const EncodedBytes frame = find_chunk(skip_riff_header(file_), {"ANMF"}).content;
  if (frame.size() >= kFrameHeader) {
    image_ = find_chunk(frame.subspan(kFrameHeader), {"VP8 ", "VP8L"}).whole;
    left_ = 2 * static_cast<int>(u24(frame.data()));
    top_ = 2 * static_cast<int>(u24(frame.data() + 3));
    frame_width_ = 1 + static_cast<int>(u24(frame.data() + 6));
    frame_height_ = 1 + static_cast<int>(u24(frame.data() + 9));
  }
  if (frame.size() < kFrameHeader || image_.empty()) {
    throw DataError(path_, "WebP: is truncated within the first frame of its animation");
  }
  int width = 0, height = 0;
  if (WebPGetInfo(image_.data(), image_.size(), &width, &height) == 0 || width != frame_width_ ||
      height != frame_height_ || frame_width_ > info_.width - left_ ||
      frame_height_ > info_.height - top_) {
    throw DataError(path_, "WebP: is damaged: the first frame of its animation has another size");
  }
}

std::string WebpFile::decode(int channels, int, Pixels& out, const LevelTable*) {
  const bool keeps_alpha = channels == 4;
  out.reset(info_.height, info_.width, keeps_alpha ? 4 : 3);
  if (frame_width_ != info_.width || frame_height_ != info_.height) {
    std::fill_n(out.data(), out.size(), std::uint8_t{0});
  }
  WebPDecoderConfig config;
  if (WebPInitDecoderConfig(&config) == 0)
    throw std::logic_error("libwebp: the version differs from its header");
  const std::size_t first = static_cast<std::size_t>(top_) * out.row_bytes() +
                            static_cast<std::size_t>(left_ * out.channels());
  config.output.colorspace = keeps_alpha ? MODE_RGBA : MODE_RGB;
  config.output.is_external_memory = 1;
  config.output.u.RGBA.rgba = out.data() + first;
  config.output.u.RGBA.stride = static_cast<int>(out.row_bytes());
  config.output.u.RGBA.size = out.size() - first;
  const VP8StatusCode status = WebPDecode(image_.data(), image_.size(), &config);
  WebPFreeDecBuffer(&config.output);
  if (status == VP8_STATUS_OK) return "";
  throw DataError(path_, "WebP: ", describe_status(status), "; its image of ", info_.width, " x ",
                  info_.height, " pixels cannot be decoded");
}

}  // namespace

std::unique_ptr<Decoder> open_webp(EncodedBytes file, const std::string& path) {
  return std::make_unique<WebpFile>(file, path);
}

}  // namespace trainer::data
