#include "backend/cuda/kernels/up_sample.h"

#include <doctest/doctest.h>

#include "cuda/kernels/array.h"

namespace trainer::test {
namespace {

namespace cuda = backend::cuda;
using graph::UpSample;

// Factors that are even and odd, images of one pixel, whole vectors and broken ones.
std::vector<cuda::UpSampleShape> shapes(UpSample::Kind kind) {
  return {{2, 3, 4, 8, 2, 2, kind},  {2, 3, 4, 5, 1, 3, kind}, {1, 4, 3, 16, 4, 1, kind},
          {3, 2, 5, 3, 5, 3, kind},  {2, 1, 1, 8, 2, 3, kind}, {1, 1, 6, 1, 4, 2, kind},
          {1, 5, 4, 264, 2, 2, kind}};
}

Shape small(const cuda::UpSampleShape& s) { return {s.n, s.h, s.w, s.c}; }
Shape large(const cuda::UpSampleShape& s) { return {s.n, s.h * s.height, s.w * s.width, s.c}; }

}  // namespace

TEST_CASE("cuda up_sample: repeated pixels and means of neighbours") {
  for (const DType type : kFloatTypes) {
    for (const UpSample::Kind kind : {UpSample::Kind::kNearest, UpSample::Kind::kBilinear}) {
      for (const cuda::UpSampleShape& shape : shapes(kind)) {
        for (const std::int64_t shift : {0, 1}) {
          CAPTURE(to_string(large(shape)));
          Array x = Array::random(type, small(shape), 3, -2, 2, shift);
          Array y(type, large(shape), shift);
          cuda::up_sample(shape, x.data(), y.data(), type, nullptr);
          const UpSample op{kind, shape.height, shape.width};
          check_close(y, evaluate_op(op, {x.tensor()}, {large(shape)})[0]);
        }
      }
    }
  }
}

TEST_CASE("cuda up_sample_backward: every pixel's share of the larger image") {
  for (const DType type : kFloatTypes) {
    for (const UpSample::Kind kind : {UpSample::Kind::kNearest, UpSample::Kind::kBilinear}) {
      for (const cuda::UpSampleShape& shape : shapes(kind)) {
        for (const std::int64_t shift : {0, 1}) {
          CAPTURE(to_string(large(shape)));
          Array dy = Array::random(type, large(shape), 4, -2, 2, shift);
          Array dx(type, small(shape), shift);
          cuda::up_sample_backward(shape, dy.data(), dx.data(), type, nullptr);
          const graph::UpSampleBackward op{kind, shape.height, shape.width};
          check_close(dx, evaluate_op(op, {dy.tensor()}, {small(shape)})[0], 1e-5);
        }
      }
    }
  }
}

TEST_CASE("cuda up_sample: repeated pixels keep infinity") {
  Array x(kF32, Tensor{{1, 1, 2, 1}, {1e39, 3}}), y(kF32, Shape{1, 2, 4, 1});
  cuda::up_sample({1, 1, 2, 1, 2, 2, UpSample::Kind::kNearest}, x.data(), y.data(), kF32, nullptr);
  check_equal(y, {{1, 2, 4, 1}, {x[0], x[0], 3, 3, x[0], x[0], 3, 3}});
}

}  // namespace trainer::test
