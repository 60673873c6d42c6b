#include "data/image_size.h"

#include "data/decode/image_file.h"

namespace trainer::data {

ImageSize image_size(const std::string& path) {
  std::vector<std::uint8_t> bytes;
  const ImageLimits limits;
  read_image_file(Path(path), limits, bytes);
  const ImageInfo info = ImageFile(bytes, path, limits).info();
  return {info.height, info.width, info.channels};
}

}  // namespace trainer::data
