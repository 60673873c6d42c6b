#include "backend/cuda/kernels/pool.h"

#include <doctest/doctest.h>

#include <cmath>

#include "base/error.h"
#include "cuda/kernels/array.h"

namespace trainer::test::pool_test {
namespace {

namespace cuda = backend::cuda;
using graph::Activation;
using graph::Pool;
using graph::Window;

constexpr DType kU8 = DType::kUInt8;

struct Case {
  std::int64_t n, h, w, c;
  Window window;

  cuda::PoolShape shape() const { return {n, h, w, c, window}; }
  Shape input() const { return {n, h, w, c}; }
  Shape output() const { return {n, window.output(h, 0), window.output(w, 1), c}; }
};

// Windows apart, overlapping, padded, dilated, not square; channels that are whole vectors or not.
std::vector<Case> cases() {
  Window apart;
  apart.size = apart.stride = {2, 2};
  Window overlapping;
  overlapping.size = {3, 3};
  overlapping.stride = {2, 2};
  overlapping.pad_before = overlapping.pad_after = {1, 1};
  Window dilated;
  dilated.size = {2, 3};
  dilated.dilation = {3, 2};
  dilated.pad_before = {2, 1};
  dilated.pad_after = {1, 3};
  Window sparse;  // pixels that no window holds
  sparse.size = {2, 1};
  sparse.stride = {3, 4};
  return {{2, 6, 8, 16, apart},      {3, 7, 7, 5, apart},         {2, 9, 8, 24, overlapping},
          {1, 5, 7, 3, overlapping}, {1, 8, 9, 264, overlapping}, {2, 7, 9, 8, dilated},
          {1, 9, 9, 6, dilated},     {2, 8, 9, 8, sparse},        {70, 2, 2, 1, apart}};
}

const Activation kActivations[] = {
    {Activation::Kind::kLinear, 0}, {Activation::Kind::kRelu, 0},
    {Activation::Kind::kRelu6, 0},  {Activation::Kind::kLeakyRelu, 0.3f},
    {Activation::Kind::kElu, 0.8f}, {Activation::Kind::kSigmoid, 0},
    {Activation::Kind::kTanh, 0}};

// Whole numbers, so that windows hold equal maxima.
Array pixels(DType type, const Shape& shape, std::int64_t shift) {
  return Array(type, Array::random(DType::kInt32, shape, 31, -3, 4).tensor(), shift);
}

}  // namespace

TEST_CASE("cuda max_pool: the first of equal maxima wins, padding never") {
  for (const DType type : kFloatTypes) {
    for (const Case& each : cases()) {
      for (const std::int64_t shift : {0, 1}) {
        Array x = pixels(type, each.input(), shift);
        for (std::int64_t i = 0; i < x.size(); ++i) x.set(i, x[i] - 5);  // all below padding's 0
        const Pool op{Pool::Kind::kMax, each.window, true};
        const std::vector<Tensor> want =
            evaluate_op(op, {x.tensor()}, {each.output(), each.output()});
        Array y(type, each.output(), shift), index(kU8, each.output());
        cuda::max_pool(each.shape(), x.data(), y.data(), index.as<std::uint8_t>(), type, nullptr);
        check_equal(y, want[0]);
        check_equal(index, want[1]);
        Array alone(type, each.output(), shift);
        cuda::max_pool(each.shape(), x.data(), alone.data(), nullptr, type, nullptr);
        CHECK((alone.bytes() == y.bytes()));
      }
    }
  }
}

TEST_CASE("cuda max_pool: NaN wins and stays, and minus infinity has a winner inside the image") {
  Window window;
  window.size = {3, 3};
  window.pad_before = window.pad_after = {1, 1};
  const double low = -std::numeric_limits<double>::infinity();
  Array x(kF32, Tensor{{1, 2, 2, 1}, {low, low, low, low}});
  Array y(kF32, Shape{1, 2, 2, 1}), index(kU8, Shape{1, 2, 2, 1});
  const cuda::PoolShape shape{1, 2, 2, 1, window};
  cuda::max_pool(shape, x.data(), y.data(), index.as<std::uint8_t>(), kF32, nullptr);
  check_equal(y, x.tensor());
  check_equal(index, {{1, 2, 2, 1}, {4, 3, 1, 0}});
  x = Array(kF32, Tensor{{1, 2, 2, 1}, {1, std::nan(""), 5, 2}});
  cuda::max_pool(shape, x.data(), y.data(), index.as<std::uint8_t>(), kF32, nullptr);
  for (std::int64_t i = 0; i < 4; ++i) CHECK(std::isnan(y[i]));
  check_equal(index, {{1, 2, 2, 1}, {5, 4, 2, 1}});
}

TEST_CASE("cuda average_pool divides by the pixels inside the image") {
  for (const DType type : kFloatTypes) {
    for (const Case& each : cases()) {
      for (const std::int64_t shift : {0, 1}) {
        Array x = Array::random(type, each.input(), 32, -2, 2, shift);
        const Pool op{Pool::Kind::kAverage, each.window, false};
        Array y(type, each.output(), shift);
        cuda::average_pool(each.shape(), x.data(), y.data(), type, nullptr);
        check_close(y, evaluate_op(op, {x.tensor()}, {each.output()})[0]);
      }
    }
  }
}

TEST_CASE("cuda pool backward gathers from all windows, through activations") {
  for (const DType type : kFloatTypes) {
    for (const Case& each : cases()) {
      for (const Activation& activation : kActivations) {
        const std::int64_t shift = activation.kind == Activation::Kind::kRelu6 ? 1 : 0;
        CAPTURE(static_cast<int>(activation.kind));
        Array x = pixels(type, each.input(), shift);
        const Pool pool{Pool::Kind::kMax, each.window, true};
        const std::vector<Tensor> made =
            evaluate_op(pool, {x.tensor()}, {each.output(), each.output()});
        Array index(kU8, made[1]);
        Array y(type, made[0], shift);
        Array dy = Array::random(type, each.output(), 34, -2, 2, shift);
        const void* saved = activation.linear() ? nullptr : y.data();
        graph::PoolBackward op{Pool::Kind::kMax, each.window, each.input(), activation};

        Array dx(type, each.input(), shift);
        cuda::max_pool_backward(each.shape(), dy.data(), index.as<std::uint8_t>(), saved,
                                activation, dx.data(), type, nullptr);
        check_close(dx, evaluate_op(op, {dy.tensor(), made[1], y.tensor()}, {each.input()})[0]);

        op.kind = Pool::Kind::kAverage;
        cuda::average_pool_backward(each.shape(), dy.data(), saved, activation, dx.data(), type,
                                    nullptr);
        check_close(dx, evaluate_op(op, {dy.tensor(), y.tensor()}, {each.input()})[0]);
      }
    }
  }
}

TEST_CASE("cuda global pooling computes averages and maxima, forward and backward") {
  struct Extent {
    std::int64_t n, h, w, c;
  };
  for (const DType type : kFloatTypes) {
    for (const auto& [n, h, w, c] : {Extent{3, 7, 7, 24}, Extent{2, 1, 1, 5}, Extent{2, 20, 15, 3},
                                     Extent{1, 5, 3, 264}, Extent{4, 3, 3, 1}}) {
      for (const std::int64_t shift : {0, 1}) {
        const Shape image{n, h, w, c}, pooled{n, c};
        Array x = Array::random(type, image, 41, -2, 2, shift);
        Array y(type, pooled, shift), dy = Array::random(type, pooled, 42, -2, 2, shift);
        Array dx(type, image, shift);
        cuda::global_average(x.data(), y.data(), n, h * w, c, type, nullptr);
        using graph::GlobalPool, graph::GlobalPoolBackward;
        check_close(y, evaluate_op(GlobalPool{Pool::Kind::kAverage}, {x.tensor()}, {pooled})[0]);
        cuda::global_average_backward(dy.data(), dx.data(), n, h * w, c, type, nullptr);
        GlobalPoolBackward op{Pool::Kind::kAverage, image};
        check_close(dx, evaluate_op(op, {dy.tensor()}, {image})[0]);

        x = pixels(type, image, shift);
        cuda::global_max(x.data(), y.data(), n, h * w, c, type, nullptr);
        check_equal(y, evaluate_op(GlobalPool{Pool::Kind::kMax}, {x.tensor()}, {pooled})[0]);
        cuda::global_max_backward(dy.data(), x.data(), y.data(), dx.data(), n, h * w, c, type,
                                  nullptr);
        op.kind = Pool::Kind::kMax;
        check_equal(dx, evaluate_op(op, {dy.tensor(), x.tensor(), y.tensor()}, {image})[0]);
      }
    }
  }
}

TEST_CASE("cuda pool: more pixels than 32 bits can count are an error") {
  Window window;
  const cuda::PoolShape shape{1 << 16, 1 << 8, 1 << 8, 1, window};
  CHECK_THROWS_WITH_AS(
      cuda::average_pool(shape, nullptr, nullptr, kF32, nullptr),
      "a batch of 4294967296 pixels; kernels for GPUs take up to 2147483647; use a smaller "
      "train.batch_size",
      DeviceError);
}

TEST_CASE("cuda global_max: NaN wins wherever it is") {
  for (const std::int64_t at : {0, 3, 99}) {
    Array x = Array::random(kF32, {1, 10, 10, 1}, 1), y(kF32, Shape{1, 1});
    y.set(0, 0);
    x.set(at, std::nan(""));
    cuda::global_max(x.data(), y.data(), 1, 100, 1, kF32, nullptr);
    CHECK(std::isnan(y[0]));
  }
}

}  // namespace trainer::test::pool_test
