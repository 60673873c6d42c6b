#include "engine/flip_evaluation.h"

#include <doctest/doctest.h>

#include <cstring>

namespace trainer::engine {
TEST_CASE("flip_images: the pixels of each row are reversed, each with its channels") {
  std::vector<std::uint8_t> images(2 * 2 * 3 * 2);  // 2 images of 2 x 3 pixels with 2 channels
  for (std::size_t i = 0; i < images.size(); ++i) images[i] = static_cast<std::uint8_t>(i);
  std::vector<std::byte> flipped;
  flip_images(Shape{2, 3, 2}, DType::kUInt8, 2, images.data(), flipped);
  const std::vector<std::uint8_t> expected{4,  5,  2,  3,  0,  1,  10, 11, 8,  9,  6,  7,
                                           16, 17, 14, 15, 12, 13, 22, 23, 20, 21, 18, 19};
  REQUIRE(flipped.size() == expected.size());
  CHECK(std::memcmp(flipped.data(), expected.data(), expected.size()) == 0);

  const std::vector<float> floats{1, 2, 3, 4, 5, 6}, reversed{3, 2, 1, 6, 5, 4};
  flip_images(Shape{2, 3, 1}, DType::kFloat32, 1, floats.data(), flipped);
  REQUIRE(flipped.size() == 24);
  CHECK(std::memcmp(flipped.data(), reversed.data(), 24) == 0);
}

}  // namespace trainer::engine
