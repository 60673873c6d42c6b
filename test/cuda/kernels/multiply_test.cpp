#include "backend/cuda/kernels/multiply.h"

#include <doctest/doctest.h>

#include <cmath>

#include "backend/cuda/kernels/response_norm.h"
#include "cuda/kernels/array.h"

namespace trainer::test {
namespace {

namespace cuda = backend::cuda;

// Images and what is repeated for them: whole vectors and broken ones, fewer rows than a block has
// and more, a part of many blocks along a row.
const std::vector<Shape>& images() {
  static const std::vector<Shape> all{{1, 1, 1, 1},  {3, 4, 5, 6},   {2, 3, 3, 16}, {5, 1, 2, 264},
                                      {2, 40, 9, 8}, {70, 2, 1, 24}, {2, 67, 5, 1}};
  return all;
}

// The parts of an image that a parameter may have.
std::vector<Shape> parameters(const Shape& image) {
  return {{image[3]}, {image[1], image[2], image[3]}};
}

cuda::RepeatedShape of_samples(const Shape& x) { return {x[0], x[1] * x[2], x[3]}; }
cuda::RepeatedShape of_all(const Shape& x, const Shape& part) {
  return {1, x.elements() / part.elements(), part.elements()};
}

double rows_tolerance(const cuda::RepeatedShape& shape) {
  return 1e-6 * static_cast<double>(shape.rows);
}

}  // namespace

TEST_CASE("cuda multiply takes equal shapes, also in place") {
  for (const DType type : kFloatTypes) {
    for (const std::int64_t count : {1, 7, 2051, 6001}) {
      for (const std::int64_t shift : {0, 1}) {
        Array a = Array::random(type, {count}, 3, -3, 3, shift);
        Array b = Array::random(type, {count}, 4, -3, 3, shift), y(type, Shape{count}, shift);
        cuda::multiply(a.data(), b.data(), y.data(), type, count, nullptr);
        check_close(y, evaluate_op(graph::Multiply{}, {a.tensor(), b.tensor()}, {{count}})[0]);
        cuda::multiply(a.data(), b.data(), b.data(), type, count, nullptr);
        CHECK((b.bytes() == y.bytes()));
      }
    }
  }
}

TEST_CASE("cuda multiply_repeated has a factor for a sample's channels, and its gradient") {
  for (const DType type : kFloatTypes) {
    for (const Shape& image : images()) {
      for (const std::int64_t shift : {0, 1}) {
        CAPTURE(to_string(image));
        const Shape part{image[0], 1, 1, image[3]};
        Array x = Array::random(type, image, 5, -3, 3, shift), y(type, image, shift);
        Array factor = Array::random(type, part, 6, -3, 3, shift);
        Array dy = Array::random(type, image, 7, -1, 2, shift);
        cuda::multiply_repeated(x.data(), factor.data(), type, y.data(), type, of_samples(image),
                                nullptr);
        check_close(y, evaluate_op(graph::Multiply{}, {x.tensor(), factor.tensor()}, {image})[0]);

        for (const bool two : {false, true}) {
          std::vector<Tensor> inputs{dy.tensor()};
          if (two) inputs.push_back(x.tensor());
          const std::vector<Array> sums = check_repeats([&] {
            std::vector<Array> made;
            made.emplace_back(type, part, shift);
            cuda::sum_products(dy.data(), two ? x.data() : nullptr, made[0].data(), type,
                               of_samples(image), nullptr);
            return made;
          });
          check_close(sums[0], evaluate_op(graph::SumProduct{part}, inputs, {part})[0],
                      3 * rows_tolerance(of_samples(image)));
        }
      }
    }
  }
}

TEST_CASE("cuda response_norm computes factors, norms and their gradients") {
  for (const DType type : kFloatTypes) {
    for (const Shape& image : images()) {
      CAPTURE(to_string(image));
      const Shape part{image[0], 1, 1, image[3]};
      const graph::ResponseNorm op{0.5f};
      Array x = Array::random(type, image, 5, -3, 3), sums(kF32, part);
      Array gamma = Array::random(kF32, {image[3]}, 6, 0.5, 1.5), dy = Array::random(type, part, 7);
      Array factors(type, part), norms(type, part), slopes(type, part), products(type, part);
      cuda::sum_products_float32(x.data(), x.data(), sums.as<float>(), type, of_samples(image),
                                 nullptr);
      cuda::response_norm(op, sums.as<float>(), gamma.as<float>(), factors.data(), norms.data(),
                          type, part[0], part[3], nullptr);
      const auto made = evaluate_op(op, {x.tensor(), gamma.tensor()}, {part, part});
      check_close(factors, made[0]);
      check_close(norms, made[1], rows_tolerance(of_samples(image)));
      cuda::response_norm_backward({0.5f}, norms.data(), gamma.as<float>(), dy.data(),
                                   slopes.data(), products.data(), type, part[0], part[3], nullptr);
      const auto gradients =
          evaluate_op(graph::ResponseNormBackward{0.5f},
                      {norms.tensor(), gamma.tensor(), dy.tensor()}, {part, part});
      check_close(slopes, gradients[0]);
      check_close(products, gradients[1]);
    }
  }
}

TEST_CASE("cuda multiply_repeated and add_repeated compute outputs and gradients of parameters") {
  for (const DType type : kFloatTypes) {
    for (const Shape& image : images()) {
      for (const Shape& part : parameters(image)) {
        for (const std::int64_t shift : {0, 1}) {
          CAPTURE(to_string(image));
          CAPTURE(to_string(part));
          const cuda::RepeatedShape shape = of_all(image, part);
          Array x = Array::random(type, image, 5, -3, 3, shift), y(type, image, shift);
          Array w = Array::random(kF32, part, 6, -3, 3, shift);
          Array dy = Array::random(type, image, 7, -1, 2, shift);
          cuda::multiply_repeated(x.data(), w.data(), kF32, y.data(), type, shape, nullptr);
          check_close(y, evaluate_op(graph::Multiply{}, {x.tensor(), w.tensor()}, {image})[0]);
          cuda::add_repeated(x.data(), w.as<float>(), y.data(), type, shape, nullptr);
          check_close(y, evaluate_op(graph::AddBias{}, {x.tensor(), w.tensor()}, {image})[0]);

          for (const bool two : {false, true}) {
            std::vector<Tensor> inputs{dy.tensor()};
            if (two) inputs.push_back(x.tensor());
            const std::vector<Array> sums = check_repeats([&] {
              std::vector<Array> made;
              made.emplace_back(kF32, part);
              Array scratch(DType::kUInt8,
                            Shape{cuda::sum_products_scratch(shape.rows, shape.width)});
              cuda::sum_products_of_all(dy.data(), two ? x.data() : nullptr, made[0].as<float>(),
                                        type, shape.rows, shape.width, scratch.data(), nullptr);
              return made;
            });
            check_close(sums[0], evaluate_op(graph::SumProduct{part}, inputs, {part})[0],
                        3 * rows_tolerance(shape));
          }
        }
      }
    }
  }
}

TEST_CASE("cuda multiply_repeated takes more samples and parts of a row than a grid has blocks") {
  const std::int64_t samples = 65535 + 3;
  Array x = Array::random(kF32, {samples, 2, 1, 1}, 5), y(kF32, Shape{samples, 2, 1, 1});
  Array factor = Array::random(kF32, {samples, 1, 1, 1}, 6), sums(kF32, Shape{samples, 1, 1, 1});
  cuda::multiply_repeated(x.data(), factor.data(), kF32, y.data(), kF32, {samples, 2, 1}, nullptr);
  cuda::sum_products(x.data(), nullptr, sums.data(), kF32, {samples, 2, 1}, nullptr);
  std::int64_t wrong = 0;
  for (std::int64_t i = 0; i < samples; ++i) {
    const auto f = static_cast<float>(factor[i]), a = static_cast<float>(x[2 * i]);
    const auto b = static_cast<float>(x[2 * i + 1]);
    wrong += y[2 * i] != static_cast<double>(a * f) || y[2 * i + 1] != static_cast<double>(b * f);
    wrong += sums[i] != static_cast<double>(a + b);
  }
  CHECK(wrong == 0);
}

}  // namespace trainer::test
