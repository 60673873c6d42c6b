#include "backend/cuda/kernels/batch_norm.h"

#include <doctest/doctest.h>

#include <cmath>

#include "cuda/kernels/array.h"

namespace trainer::test {
namespace {

namespace cuda = backend::cuda;
using graph::Activation;

const Activation kActivations[] = {{Activation::Kind::kLinear, 0},
                                   {Activation::Kind::kRelu, 0},
                                   {Activation::Kind::kRelu6, 0},
                                   {Activation::Kind::kTanh, 0}};

struct Extent {
  std::int64_t rows, c;
};
// Less than a block, rows that are not a multiple of anything, many channels, many rows.
constexpr Extent kExtents[] = {{2, 1}, {300, 3}, {2500, 24}, {77, 264}, {9001, 8}, {641, 100}};

// What the forward pass leaves.
struct Statistics {
  Array mean, inverse_std;
};

Statistics compute_statistics(Array& x, std::int64_t rows, std::int64_t c, float epsilon) {
  std::vector<Array> moments = check_repeats([&] {
    std::vector<Array> made;
    Array scratch(DType::kUInt8, Shape{cuda::batch_norm_scratch(rows, c)});
    made.emplace_back(kF32, Shape{3, c});
    cuda::channel_moments(x.data(), x.type(), rows, c, made[0].as<float>(), scratch.data(),
                          nullptr);
    return made;
  });
  Statistics s{Array(kF32, Shape{c}), Array(kF32, Shape{c})};
  cuda::combine_moments(moments[0].as<float>(), 1, c, epsilon, s.mean.as<float>(),
                        s.inverse_std.as<float>(), nullptr);
  Array scratch(DType::kUInt8, Shape{cuda::batch_norm_scratch(rows, c)});
  Array mean(kF32, Shape{c}), inverse_std(kF32, Shape{c});
  cuda::channel_statistics(x.data(), x.type(), rows, c, epsilon, mean.as<float>(),
                           inverse_std.as<float>(), scratch.data(), nullptr);
  CHECK(mean.bytes() == s.mean.bytes());
  CHECK(inverse_std.bytes() == s.inverse_std.bytes());
  return s;
}

}  // namespace

TEST_CASE("cuda batch norm: forward and backward in training form match the reference") {
  const float epsilon = 1e-3f;
  for (const DType type : kFloatTypes) {
    for (const auto& [rows, c] : kExtents) {
      for (const Activation& activation : kActivations) {
        const std::int64_t shift = activation.kind == Activation::Kind::kRelu6 ? 1 : 0;
        CAPTURE(rows);
        CAPTURE(c);
        const Shape shape{rows, c};
        Array x = Array::random(type, shape, 1, -1, 3, shift);
        Array gamma = Array::random(kF32, {c}, 2, 0.5, 2), beta = Array::random(kF32, {c}, 3);
        Statistics s = compute_statistics(x, rows, c, epsilon);
        const std::vector<Tensor> want =
            evaluate_op(graph::BatchNorm{epsilon, activation},
                        {x.tensor(), gamma.tensor(), beta.tensor()}, {shape, {c}, {c}});
        check_close(s.mean, want[1], 1e-6);
        check_close(s.inverse_std, want[2], 1e-5);

        Array y(type, shape, shift);
        cuda::normalize(x.data(), gamma.as<float>(), beta.as<float>(), s.mean.as<float>(),
                        s.inverse_std.as<float>(), activation, y.data(), type, rows, c, nullptr);
        check_close(y, want[0], 2e-5);

        Array dy = Array::random(type, shape, 4, -2, 2, shift);
        const void* saved = activation.linear() ? nullptr : y.data();
        const std::vector<Array> sums = check_repeats([&, rows = rows, c = c] {
          std::vector<Array> made;
          Array scratch(DType::kUInt8, Shape{cuda::batch_norm_scratch(rows, c)});
          made.emplace_back(kF32, Shape{2 * c + 1});
          made.emplace_back(kF32, Shape{c});
          made.emplace_back(kF32, Shape{c});
          cuda::norm_backward_sums(
              x.data(), {dy.data(), nullptr, saved}, s.mean.as<float>(), s.inverse_std.as<float>(),
              activation, type, rows, c,
              {made[1].as<float>(), made[2].as<float>(), made[0].as<float>(), true}, scratch.data(),
              nullptr);
          return made;
        });
        const std::vector<Tensor> back =
            evaluate_op(graph::BatchNormBackward{epsilon, activation},
                        {x.tensor(), dy.tensor(), gamma.tensor(), s.mean.tensor(),
                         s.inverse_std.tensor(), y.tensor()},
                        {shape, {c}, {c}});
        Tensor all = back[2];
        all.data.insert(all.data.end(), back[1].data.begin(), back[1].data.end());
        all.data.push_back(static_cast<double>(rows));
        check_close(sums[0], all, 2e-6 * static_cast<double>(rows));
        for (std::int64_t i = 0; i < c; ++i) {
          CHECK(sums[1][i] == sums[0][i]);
          CHECK(sums[2][i] == sums[0][c + i]);
        }
        Array dx(type, shape, shift), sum(kF32, sums[0].tensor());
        cuda::norm_backward(x.data(), {dy.data(), nullptr, saved}, gamma.as<float>(),
                            s.mean.as<float>(), s.inverse_std.as<float>(), sum.as<float>(),
                            activation, dx.data(), type, rows, c, nullptr);
        check_close(dx, back[0], 2e-5);
      }
    }
  }
}

TEST_CASE(
    "norm_backward_sums writes zeros and the sum of the gradients for rows that do not count") {
  const std::int64_t rows = 300, c = 3;
  Array x = Array::random(kF32, {rows, c}, 1), dy = Array::random(kF32, {rows, c}, 2);
  Array dy2 = Array::random(kF32, {rows, c}, 3), sum(kF32, Shape{rows, c});
  Statistics s = compute_statistics(x, rows, c, 1e-3f);
  Array dbeta = Array::random(kF32, {c}, 4), dgamma = Array::random(kF32, {c}, 5);
  Array all = Array::random(kF32, {2 * c + 1}, 6);
  Array scratch(DType::kUInt8, Shape{cuda::batch_norm_scratch(rows, c)});
  cuda::norm_backward_sums(x.data(), {dy.data(), dy2.data(), nullptr, nullptr, sum.data()},
                           s.mean.as<float>(), s.inverse_std.as<float>(), {}, kF32, rows, c,
                           {dbeta.as<float>(), dgamma.as<float>(), all.as<float>(), false},
                           scratch.data(), nullptr);
  for (std::int64_t i = 0; i < c; ++i) {
    CHECK(dbeta[i] == 0);
    CHECK(dgamma[i] == 0);
  }
  for (std::int64_t i = 0; i < 2 * c + 1; ++i) CHECK(all[i] == 0);
  for (std::int64_t i = 0; i < rows * c; ++i) {
    CHECK(sum[i] == static_cast<double>(dy.as<float>()[i] + dy2.as<float>()[i]));
  }
}

namespace {

// Values whose outputs, of a norm that changes nothing but their type, lie around the ends of the
// linear range of relu6: some are inside of it, and at its end once they are rounded.
Array values_near_ends(DType type, std::int64_t rows, std::int64_t c) {
  Array x = Array::random(kF32, {rows, c}, 1, -0.001, 0.001);
  for (std::int64_t i = 0; i < rows * c; ++i) {
    if (i % 3 == 0) x.set(i, 6 + x[i]);
    if (i % 3 == 1) x.set(i, 1e-5 * x[i]);
  }
  return type == kF32 ? std::move(x) : Array(type, x.tensor());
}

// The gradient of a norm from y, or from the mask that the norm has written.
std::vector<Array> compute_gradient(Array& x, const void* addend, const Activation& activation,
                                    std::int64_t rows, std::int64_t c, bool from_mask) {
  const DType type = x.type();
  const Tensor ones{{c}, std::vector<double>(static_cast<std::size_t>(c), 1)};
  Array gamma(kF32, ones), inverse_std(kF32, ones), mean = Array::random(kF32, {c}, 2, 0, 1e-7);
  Array beta = Array::random(kF32, {c}, 3, -0.001, 0.001), dy = Array::random(type, {rows, c}, 4);
  Array scratch(DType::kUInt8, Shape{cuda::batch_norm_scratch(rows, c)});
  Array mask(DType::kUInt8, Shape{cuda::mask_bytes(type, rows, c)});
  std::vector<Array> made;
  made.emplace_back(type, Shape{rows, c});
  made.emplace_back(kF32, Shape{2 * c + 1});
  for (int i = 0; i < 2; ++i) made.emplace_back(kF32, Shape{c});
  for (int i = 0; i < 2; ++i) made.emplace_back(type, Shape{rows, c});
  Array& y = made[0];
  cuda::normalize_add(x.data(), addend, gamma.as<float>(), beta.as<float>(), mean.as<float>(),
                      inverse_std.as<float>(), activation, y.data(),
                      from_mask ? mask.as<std::uint8_t>() : nullptr, type, rows, c, nullptr);
  cuda::NormGradient gradient{dy.data(), nullptr, from_mask ? nullptr : y.data(),
                              from_mask ? mask.as<std::uint8_t>() : nullptr, made[4].data()};
  cuda::norm_backward_sums(
      x.data(), gradient, mean.as<float>(), inverse_std.as<float>(), activation, type, rows, c,
      {made[2].as<float>(), made[3].as<float>(), made[1].as<float>()}, scratch.data(), nullptr);
  gradient.sum = nullptr;
  cuda::norm_backward(x.data(), gradient, gamma.as<float>(), mean.as<float>(),
                      inverse_std.as<float>(), made[1].as<float>(), activation, made[5].data(),
                      type, rows, c, nullptr);
  return made;
}

}  // namespace

TEST_CASE("cuda batch norm: the gradient from a mask has the bits of the gradient from y") {
  for (const DType type : kFloatTypes) {
    for (const auto& [rows, c] : kExtents) {
      for (const auto kind : {Activation::Kind::kRelu, Activation::Kind::kRelu6}) {
        CAPTURE(rows);
        CAPTURE(c);
        const Activation activation{kind, 0};
        Array x = values_near_ends(type, rows, c);
        Array other = Array::random(type, {rows, c}, 5, -0.001, 0.001);
        for (const void* addend : {static_cast<void*>(nullptr), other.data()}) {
          const std::vector<Array> got = check_repeats([&, rows = rows, c = c] {
            return compute_gradient(x, addend, activation, rows, c, true);
          });
          check_same_bytes(compute_gradient(x, addend, activation, rows, c, false), got);
        }
        CHECK(cuda::mask_bytes(type, rows, c) <= rows * c);
      }
    }
  }
  CHECK(cuda::mask_bytes(DType::kBFloat16, 77, 264) == 77 * 264 / 8);
}

TEST_CASE("cuda batch norm: a mean far from zero costs no digits of the variance") {
  const std::int64_t rows = 3000, c = 4;
  Array x = Array::random(kF32, {rows, c}, 1, 1000, 1000.5);
  Statistics s = compute_statistics(x, rows, c, 1e-6f);
  const std::vector<Tensor> want =
      evaluate_op(graph::BatchNorm{1e-6f, {}},
                  {x.tensor(), {{c}, {1, 1, 1, 1}}, {{c}, {0, 0, 0, 0}}}, {{rows, c}, {c}, {c}});
  check_close(s.inverse_std, want[2], 1e-3);
}

TEST_CASE("cuda batch norm: moments are combined to those of all ranks except empty ones") {
  const std::int64_t c = 37;
  const std::vector<std::int64_t> rows = {0, 40, 0, 1, 300};
  Array x = Array::random(kF32, {341, c}, 1, -2, 5);
  Array moments(kF32, Shape{5, 3, c});
  std::int64_t first = 0;
  for (std::size_t rank = 0; rank < rows.size(); ++rank) {
    Array scratch(DType::kUInt8, Shape{cuda::batch_norm_scratch(rows[rank], c)});
    cuda::channel_moments(x.as<float>() + first * c, kF32, rows[rank], c,
                          moments.as<float>() + static_cast<std::int64_t>(rank) * 3 * c,
                          scratch.data(), nullptr);
    first += rows[rank];
  }
  Array mean(kF32, Shape{c}), inverse_std(kF32, Shape{c});
  cuda::combine_moments(moments.as<float>(), 5, c, 1e-3f, mean.as<float>(), inverse_std.as<float>(),
                        nullptr);
  const Tensor ones{{c}, std::vector<double>(37, 1)}, zeros{{c}, std::vector<double>(37, 0)};
  const std::vector<Tensor> want =
      evaluate_op(graph::BatchNorm{1e-3f, {}}, {x.tensor(), ones, zeros}, {{341, c}, {c}, {c}});
  check_close(mean, want[1], 1e-6);
  check_close(inverse_std, want[2], 1e-6);
}

TEST_CASE("cuda batch norm: the inference form matches the reference") {
  for (const DType type : kFloatTypes) {
    for (const auto& [rows, c] : {Extent{50, 24}, Extent{7, 5}}) {
      const Shape shape{rows, c};
      const Activation activation{Activation::Kind::kRelu, 0};
      Array x = Array::random(type, shape, 1), dy = Array::random(type, shape, 2);
      Array gamma = Array::random(kF32, {c}, 3, 0.5, 2), beta = Array::random(kF32, {c}, 4);
      Array mean = Array::random(kF32, {c}, 5), variance = Array::random(kF32, {c}, 6, 0.1, 3);
      Array inverse_std(kF32, Shape{c}), y(type, shape), dx(type, shape);
      cuda::compute_inverse_std(variance.as<float>(), 0.01f, inverse_std.as<float>(), c, nullptr);
      cuda::normalize(x.data(), gamma.as<float>(), beta.as<float>(), mean.as<float>(),
                      inverse_std.as<float>(), activation, y.data(), type, rows, c, nullptr);
      const graph::BatchNormInference op{0.01f, activation};
      check_close(
          y,
          evaluate_op(op,
                      {x.tensor(), gamma.tensor(), beta.tensor(), mean.tensor(), variance.tensor()},
                      {shape})[0],
          5e-6);
      cuda::norm_inference_backward(dy.data(), y.data(), gamma.as<float>(), inverse_std.as<float>(),
                                    activation, dx.data(), type, rows, c, nullptr);
      const graph::BatchNormInferenceBackward back{0.01f, activation};
      check_close(dx,
                  evaluate_op(back,
                              {x.tensor(), dy.tensor(), gamma.tensor(), mean.tensor(),
                               variance.tensor(), y.tensor()},
                              {shape, {c}, {c}})[0],
                  5e-6);
    }
  }
}

TEST_CASE("cuda update_statistics follows finite calls only") {
  const graph::UpdateStatistics op{0.9f, 1e-3f};
  for (const std::uint32_t finite : {0, 1}) {
    const std::int64_t c = 300;
    Array moving_mean = Array::random(kF32, {c}, 1), moving_variance = Array::random(kF32, {c}, 2);
    Array mean = Array::random(kF32, {c}, 3), inverse_std = Array::random(kF32, {c}, 4, 0.5, 3);
    std::vector<Tensor> want = {moving_mean.tensor(), moving_variance.tensor()};
    if (finite == 1) {
      want = evaluate_op(op, {want[0], want[1], mean.tensor(), inverse_std.tensor()}, {{c}, {c}});
    }
    cuda::StepState state = {};
    state.all_finite = finite;
    const cuda::MovingStatistics layer{moving_mean.as<float>(),
                                       moving_variance.as<float>(),
                                       mean.as<float>(),
                                       inverse_std.as<float>(),
                                       static_cast<std::int32_t>(c),
                                       op.momentum,
                                       op.epsilon};
    cuda::update_statistics({&layer, 1}, &state, nullptr);
    check_close(moving_mean, want[0]);
    check_close(moving_variance, want[1]);
    CHECK(state.moved == finite);
  }
}

TEST_CASE("cuda update_statistics: a variance that rounding made negative counts as 0") {
  Array moving_mean(kF32, Tensor{{1}, {0}}), moving_variance(kF32, Tensor{{1}, {0}});
  Array mean(kF32, Tensor{{1}, {0}}), inverse_std(kF32, Tensor{{1}, {40}});
  cuda::StepState state = {};
  state.all_finite = 1;
  const cuda::MovingStatistics layer{moving_mean.as<float>(),
                                     moving_variance.as<float>(),
                                     mean.as<float>(),
                                     inverse_std.as<float>(),
                                     1,
                                     0.5f,
                                     1e-3f};
  cuda::update_statistics({&layer, 1}, &state, nullptr);
  CHECK(moving_variance[0] == 0);
}

TEST_CASE("cuda update_statistics: each of many layers has its own numbers") {
  // More than one launch has, of one block and of two.
  constexpr std::size_t kLayers = 83;
  std::vector<Array> means, variances, batch_means, inverse_stds;
  std::vector<Tensor> want;
  std::vector<cuda::MovingStatistics> layers;
  for (std::size_t i = 0; i < kLayers; ++i) {
    const auto c = static_cast<std::int64_t>(1 + i * 37 % 300);
    const auto seed = static_cast<unsigned>(4 * i);
    const graph::UpdateStatistics op{0.5f + 0.005f * static_cast<float>(i), 1e-3f};
    means.push_back(Array::random(kF32, {c}, seed));
    variances.push_back(Array::random(kF32, {c}, seed + 1, 0.1, 3));
    batch_means.push_back(Array::random(kF32, {c}, seed + 2));
    inverse_stds.push_back(Array::random(kF32, {c}, seed + 3, 0.5, 3));
    for (Tensor& moved : evaluate_op(op,
                                     {means[i].tensor(), variances[i].tensor(),
                                      batch_means[i].tensor(), inverse_stds[i].tensor()},
                                     {{c}, {c}})) {
      want.push_back(std::move(moved));
    }
    layers.push_back({means[i].as<float>(), variances[i].as<float>(), batch_means[i].as<float>(),
                      inverse_stds[i].as<float>(), static_cast<std::int32_t>(c), op.momentum,
                      op.epsilon});
  }
  cuda::StepState state = {};
  state.all_finite = 1;
  cuda::update_statistics(layers, &state, nullptr);
  for (std::size_t i = 0; i < kLayers; ++i) {
    CAPTURE(i);
    check_close(means[i], want[2 * i]);
    check_close(variances[i], want[2 * i + 1]);
  }
  CHECK(state.moved == 1);
}

TEST_CASE("cuda fold_batch_norm folds with and without a bias") {
  for (const bool bias : {false, true}) {
    const std::int64_t c = 19, elements = 27 * c;
    Array kernel = Array::random(kF32, {elements}, 1), b = Array::random(kF32, {c}, 2);
    Array gamma = Array::random(kF32, {c}, 3, 0.5, 2), beta = Array::random(kF32, {c}, 4);
    Array mean = Array::random(kF32, {c}, 5), variance = Array::random(kF32, {c}, 6, 0.1, 3);
    Array folded(kF32, Shape{elements}), folded_bias(kF32, Shape{c});
    cuda::fold_batch_norm(kernel.as<float>(), bias ? b.as<float>() : nullptr, gamma.as<float>(),
                          beta.as<float>(), mean.as<float>(), variance.as<float>(), 1e-3f,
                          folded.as<float>(), folded_bias.as<float>(), elements, c, nullptr);
    std::vector<Tensor> inputs = {kernel.tensor()};
    if (bias) inputs.push_back(b.tensor());
    for (const Array* each : {&gamma, &beta, &mean, &variance}) inputs.push_back(each->tensor());
    const std::vector<Tensor> want =
        evaluate_op(graph::FoldBatchNorm{1e-3f, bias}, inputs, {{elements}, {c}});
    check_close(folded, want[0]);
    check_close(folded_bias, want[1]);
  }
}

}  // namespace trainer::test
