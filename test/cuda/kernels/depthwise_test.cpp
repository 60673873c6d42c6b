#include "backend/cuda/kernels/depthwise.h"

#include <doctest/doctest.h>

#include "cuda/kernels/array.h"

namespace trainer::test {
namespace {

namespace cuda = backend::cuda;
using graph::Window;

Window build_window(std::int64_t size, std::int64_t stride, std::int64_t dilation,
                    std::int64_t before, std::int64_t after) {
  Window window;
  window.size = {size, size};
  window.stride = {stride, stride};
  window.dilation = {dilation, dilation};
  window.pad_before = {before, before};
  window.pad_after = {after, after};
  return window;
}

// 5x5 (more positions than one pass sums), dilated, not square, several outputs per channel; 3x3 of
// stride 1 and 2, which is computed in tiles: more and fewer outputs than whole tiles, images of
// one pixel and one column, and pads of 0 to 2. Channels that are whole vectors, half of one, or
// not.
std::vector<cuda::DepthwiseShape> shapes() {
  Window wide = build_window(1, 1, 1, 0, 0);
  wide.size = {2, 7};
  wide.pad_before = {0, 3};
  wide.pad_after = {1, 3};
  return {
      {2, 7, 9, 16, 1, build_window(3, 1, 1, 1, 1)},  {3, 8, 7, 12, 1, build_window(3, 2, 1, 0, 1)},
      {1, 9, 9, 5, 1, build_window(5, 1, 1, 2, 2)},   {1, 9, 8, 8, 1, build_window(3, 1, 2, 2, 2)},
      {2, 5, 6, 4, 3, build_window(3, 2, 1, 1, 1)},   {1, 6, 10, 24, 1, wide},
      {1, 4, 4, 264, 1, build_window(3, 1, 1, 1, 1)}, {40, 5, 5, 1, 2, build_window(2, 1, 1, 0, 0)},
      {2, 13, 2, 6, 1, build_window(3, 2, 1, 1, 1)},  {1, 1, 1, 2, 1, build_window(3, 1, 1, 1, 1)},
      {1, 6, 11, 10, 1, build_window(3, 1, 1, 2, 0)}, {1, 5, 5, 2, 1, build_window(3, 2, 1, 2, 2)},
      {90, 9, 10, 2, 1, build_window(3, 1, 1, 0, 0)}};
}

}  // namespace

TEST_CASE("cuda depthwise: forward matches the reference with and without bias and activation") {
  for (const DType type : kFloatTypes) {
    for (const cuda::DepthwiseShape& s : shapes()) {
      for (const std::int64_t shift : {0, 1}) {
        const std::int64_t out = s.c * s.multiplier;
        const Shape output{s.n, s.window.output(s.h, 0), s.window.output(s.w, 1), out};
        Array x = Array::random(type, {s.n, s.h, s.w, s.c}, 1, -2, 2, shift);
        Array kernel = Array::random(kF32, {s.window.size[0], s.window.size[1], 1, out}, 2);
        Array bias = Array::random(kF32, {out}, 3);
        graph::Conv op;
        op.window = s.window;
        op.groups = s.c;
        op.bias = shift == 0;
        op.activation = {
            shift == 0 ? graph::Activation::Kind::kRelu6 : graph::Activation::Kind::kLinear, 0};
        std::vector<Tensor> inputs = {x.tensor(), kernel.tensor()};
        if (op.bias) inputs.push_back(bias.tensor());
        Array y(type, output, shift);
        cuda::depthwise(s, x.data(), kernel.as<float>(), op.bias ? bias.as<float>() : nullptr,
                        op.activation, y.data(), type, nullptr);
        check_close(y, evaluate_op(op, inputs, {output})[0], 2e-5);
      }
    }
  }
}

TEST_CASE("cuda depthwise: gradients of the input and of the kernel match the reference") {
  for (const DType type : kFloatTypes) {
    for (const cuda::DepthwiseShape& s : shapes()) {
      for (const std::int64_t shift : {0, 1}) {
        const std::int64_t out = s.c * s.multiplier;
        const Shape input{s.n, s.h, s.w, s.c};
        const Shape output{s.n, s.window.output(s.h, 0), s.window.output(s.w, 1), out};
        const Shape weights{s.window.size[0], s.window.size[1], 1, out};
        Array x = Array::random(type, input, 1, -2, 2, shift);
        Array dy = Array::random(type, output, 2, -2, 2, shift);
        Array kernel = Array::random(kF32, weights, 3);
        Array dx(type, input, shift);
        cuda::depthwise_backward_data(s, dy.data(), kernel.as<float>(), dx.data(), type, nullptr);
        const graph::ConvBackwardData data{s.window, s.c, input};
        check_close(dx, evaluate_op(data, {dy.tensor(), kernel.tensor()}, {input})[0], 2e-5);

        const std::vector<Array> made = check_repeats([&] {
          std::vector<Array> result;
          Array scratch(DType::kUInt8, Shape{cuda::depthwise_scratch(s)});
          result.emplace_back(kF32, weights);
          cuda::depthwise_backward_weights(s, x.data(), dy.data(), result[0].as<float>(), type,
                                           scratch.data(), nullptr);
          return result;
        });
        const graph::ConvBackwardWeights op{s.window, s.c, false, weights};
        check_close(made[0], evaluate_op(op, {x.tensor(), dy.tensor()}, {weights})[0], 1e-4);
      }
    }
  }
}

}  // namespace trainer::test
