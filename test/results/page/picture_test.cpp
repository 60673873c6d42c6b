#include "results/page/picture.h"

#include <doctest/doctest.h>

namespace trainer::results {

TEST_CASE("encode_picture: small images are PNG, larger ones JPEG with a limited size") {
  const auto picture = [](std::int64_t height, std::int64_t width, std::int64_t channels) {
    const std::vector<std::uint8_t> pixels(static_cast<std::size_t>(height * width * channels), 7);
    return encode_picture(pixels, {height, width, channels});
  };
  CHECK(picture(28, 28, 1).url.starts_with("data:image/png;base64,iVBORw0KGgo"));
  CHECK(picture(64, 64, 3).url.starts_with("data:image/png;base64,"));
  CHECK(picture(65, 64, 3).url.starts_with("data:image/jpeg;base64,/9j/"));
  CHECK(picture(512, 300, 3).height == 256);
  CHECK(picture(512, 300, 3).width == 150);
  CHECK(picture(513, 300, 3).height == 171);
  CHECK(picture(2, 1000, 3).height == 1);  // no side vanishes
  CHECK(picture(28, 28, 5).width == 28);
  for (const std::int64_t width : {1, 2, 3}) {
    const std::string url = picture(1, width, 1).url;
    CHECK((url.size() - std::string("data:image/png;base64,").size()) % 4 == 0);
  }
}

}  // namespace trainer::results
