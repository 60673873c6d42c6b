#include "backend/cuda/kernels/group_norm.h"

#include <doctest/doctest.h>

#include <cmath>

#include "cuda/kernels/array.h"

namespace trainer::test {
namespace {

namespace cuda = backend::cuda;

struct Case {
  Shape x;
  std::int64_t groups;
  bool per_pixel;
  float epsilon;

  cuda::GroupShape shape() const {
    const std::int64_t c = x[x.rank() - 1], rows = x.elements() / c;
    if (per_pixel) return {rows, 1, groups, c / groups, epsilon};
    return {x[0], rows / x[0], groups, c / groups, epsilon};
  }
};

// Groups of a warp and of a block, whole vectors and broken ones, fewer groups than a block's
// warps.
const std::vector<Case>& cases() {
  static const std::vector<Case> all{
      {{3, 12}, 1, true, 1e-3f},          {{5, 16}, 4, false, 0.5f},
      {{2, 3, 4, 5}, 1, true, 1e-3f},     {{7, 5, 6, 32}, 1, true, 1e-5f},
      {{1, 1, 1, 96}, 1, true, 1e-6f},    {{2, 2, 3, 300}, 1, true, 1e-6f},
      {{2, 3, 4, 6}, 2, false, 1e-3f},    {{2, 9, 9, 24}, 3, false, 1e-3f},
      {{3, 4, 4, 7}, 7, false, 1e-3f},    {{2, 4, 4, 7}, 1, false, 0.5f},
      {{2, 23, 17, 16}, 2, false, 1e-3f}, {{1, 67, 30, 6}, 2, false, 1e-3f}};
  return all;
}

}  // namespace

TEST_CASE("cuda group_norm: groups of a sample and of a pixel match the reference") {
  for (const DType type : kFloatTypes) {
    for (const Case& each : cases()) {
      for (const std::int64_t shift : {0, 1}) {
        CAPTURE(to_string(each.x));
        const graph::GroupNorm op{each.groups, each.per_pixel, each.epsilon};
        const Shape channels{each.x[each.x.rank() - 1]};
        Array x = Array::random(type, each.x, 3, -1, 3, shift);
        Array gamma = Array::random(kF32, channels, 4, 0.5, 1.5);
        Array beta = Array::random(kF32, channels, 5);
        const std::vector<Array> y = check_repeats([&] {
          std::vector<Array> made;
          made.emplace_back(type, each.x, shift);
          cuda::group_norm(each.shape(), x.data(), gamma.as<float>(), beta.as<float>(),
                           made[0].data(), type, nullptr);
          return made;
        });
        const auto want = evaluate_op(op, {x.tensor(), gamma.tensor(), beta.tensor()}, {each.x});
        check_close(y[0], want[0], 1e-5);
      }
    }
  }
}

TEST_CASE("cuda group_norm: a mean far from 0 costs few digits, and equal numbers give beta") {
  const std::int64_t c = 320;
  Array x = Array::random(kF32, {4, c}, 3, 999.5, 1000.5), y(kF32, Shape{4, c});
  Array gamma = Array::random(kF32, {c}, 4, 0.5, 1.5), beta = Array::random(kF32, {c}, 5);
  for (std::int64_t i = 0; i < c; ++i) x.set(i, 7);
  const Case each{{4, c}, 1, true, 1e-6f};
  cuda::group_norm(each.shape(), x.data(), gamma.as<float>(), beta.as<float>(), y.data(), kF32,
                   nullptr);
  const graph::GroupNorm op{1, true, 1e-6f};
  const Tensor want = evaluate_op(op, {x.tensor(), gamma.tensor(), beta.tensor()}, {{4, c}})[0];
  check_close(y, want, 3e-4);
  for (std::int64_t i = 0; i < c; ++i) CHECK(y[i] == beta[i]);
}

TEST_CASE(
    "cuda group_norm_backward: gradients of x, gamma and beta are the same bits in any order") {
  for (const DType type : kFloatTypes) {
    for (const Case& each : cases()) {
      for (const std::int64_t shift : {0, 1}) {
        CAPTURE(to_string(each.x));
        const graph::GroupNormBackward op{each.groups, each.per_pixel, each.epsilon};
        const Shape channels{each.x[each.x.rank() - 1]};
        Array x = Array::random(type, each.x, 6, -1, 3, shift);
        Array dy = Array::random(type, each.x, 7, -1, 2, shift);
        Array gamma = Array::random(kF32, channels, 8, 0.5, 1.5);
        const std::vector<Array> got = check_repeats([&] {
          std::vector<Array> made;
          made.emplace_back(type, each.x, shift);
          made.emplace_back(kF32, channels);
          made.emplace_back(kF32, channels);
          Array scratch(DType::kUInt8, Shape{cuda::group_norm_scratch(each.shape())});
          cuda::group_norm_backward(each.shape(), x.data(), dy.data(), gamma.as<float>(),
                                    made[0].data(), made[1].as<float>(), made[2].as<float>(), type,
                                    scratch.data(), nullptr);
          return made;
        });
        const auto want = evaluate_op(op, {x.tensor(), dy.tensor(), gamma.tensor()},
                                      {each.x, channels, channels});
        check_close(got[0], want[0], 3e-5);
        const double rows = static_cast<double>(each.shape().rows());
        check_close(got[1], want[1], 1e-5 + 3e-6 * rows);
        check_close(got[2], want[2], 1e-6 * rows);
      }
    }
  }
}

}  // namespace trainer::test
