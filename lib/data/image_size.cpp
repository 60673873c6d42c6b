#include "data/image_size.h"

#include "data/decode/image_file.h"
#include "data/images/listing/zip_folder.h"

namespace trainer::data {

ImageSize image_size(const std::string& path) {
  std::vector<std::uint8_t> bytes;
  const ImageLimits limits;
  read_image_file(find_image(path).stored(), limits, bytes);
  const ImageInfo info = ImageFile(bytes, path, limits).info();
  return {info.height, info.width, info.channels};
}

}  // namespace trainer::data
