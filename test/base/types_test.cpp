#include "base/types.h"

#include <doctest/doctest.h>

namespace trainer {

TEST_CASE("DType: the element types have their sizes and names") {
  CHECK(size_of(DType::kFloat32) == 4);
  CHECK(size_of(DType::kBFloat16) == 2);
  CHECK(size_of(DType::kFloat16) == 2);
  CHECK(size_of(DType::kUInt8) == 1);
  CHECK(size_of(DType::kInt32) == 4);
  CHECK(std::string(to_string(DType::kBFloat16)) == "bfloat16");
  CHECK(std::string(to_string(DType::kFloat16)) == "float16");
  CHECK(is_float(DType::kFloat16));
  CHECK_FALSE(is_float(DType::kUInt8));
}

TEST_CASE("Shape: elements() counts those of one sample of a batched shape") {
  const Shape images{kBatch, 28, 28, 3};
  CHECK(images.batched());
  CHECK(images.elements() == 28 * 28 * 3);
  CHECK(images.with_batch(4).elements() == 4 * 28 * 28 * 3);
  CHECK(to_string(images) == "[batch, 28, 28, 3]");
  CHECK(Shape{}.elements() == 1);
  CHECK(Shape{3, 0}.elements() == 0);
  CHECK_FALSE(Shape{28, 28}.batched());
}

}  // namespace trainer
