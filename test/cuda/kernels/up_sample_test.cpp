#include <doctest/doctest.h>

#include "backend/cuda/kernels/enqueue.h"
#include "cuda/kernels/array.h"

namespace trainer::test {
namespace {

namespace cuda = backend::cuda;
using graph::UpSample;

struct UpSampleCase {
  cuda::Extents x;
  UpSample op;

  Shape small() const { return {x.n, x.h, x.w, x.c}; }
  Shape large() const { return {x.n, x.h * op.height, x.w * op.width, x.c}; }
};

// Factors that are even and odd, images of one pixel, whole vectors and broken ones.
std::vector<UpSampleCase> cases(UpSample::Kind kind) {
  return {{{2, 3, 4, 8}, {kind, 2, 2}},  {{2, 3, 4, 5}, {kind, 1, 3}},
          {{1, 4, 3, 16}, {kind, 4, 1}}, {{3, 2, 5, 3}, {kind, 5, 3}},
          {{2, 1, 1, 8}, {kind, 2, 3}},  {{1, 1, 6, 1}, {kind, 4, 2}},
          {{1, 5, 4, 264}, {kind, 2, 2}}};
}

}  // namespace

TEST_CASE("cuda up_sample repeats pixels and interpolates means of neighbours") {
  for (const DType type : kFloatTypes) {
    for (const UpSample::Kind kind : {UpSample::Kind::kNearest, UpSample::Kind::kBilinear}) {
      for (const UpSampleCase& each : cases(kind)) {
        for (const std::int64_t shift : {0, 1}) {
          CAPTURE(to_string(each.large()));
          Array x = Array::random(type, each.small(), 3, -2, 2, shift);
          Array y(type, each.large(), shift);
          cuda::enqueue(each.op, {x.data()}, y.data(), type, each.x, nullptr);
          check_close(y, evaluate_op(each.op, {x.tensor()}, {each.large()})[0]);
        }
      }
    }
  }
}

TEST_CASE("cuda up_sample_backward sums every pixel's share of the larger image") {
  for (const DType type : kFloatTypes) {
    for (const UpSample::Kind kind : {UpSample::Kind::kNearest, UpSample::Kind::kBilinear}) {
      for (const UpSampleCase& each : cases(kind)) {
        for (const std::int64_t shift : {0, 1}) {
          CAPTURE(to_string(each.large()));
          Array dy = Array::random(type, each.large(), 4, -2, 2, shift);
          Array dx(type, each.small(), shift);
          const graph::UpSampleBackward op{kind, each.op.height, each.op.width};
          cuda::enqueue(op, {dy.data()}, dx.data(), type, each.x, nullptr);
          check_close(dx, evaluate_op(op, {dy.tensor()}, {each.small()})[0], 1e-5);
        }
      }
    }
  }
}

TEST_CASE("cuda up_sample: repeated pixels keep infinity") {
  Array x(kF32, Tensor{{1, 1, 2, 1}, {1e39, 3}}), y(kF32, Shape{1, 2, 4, 1});
  cuda::enqueue(UpSample{}, {x.data()}, y.data(), kF32, {1, 1, 2, 1}, nullptr);
  check_equal(y, {{1, 2, 4, 1}, {x[0], x[0], 3, 3, x[0], x[0], 3, 3}});
}

}  // namespace trainer::test
