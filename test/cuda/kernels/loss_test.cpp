#include "backend/cuda/kernels/loss.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "backend/cuda/kernels/class_rank.h"
#include "backend/cuda/kernels/enqueue.h"
#include "backend/cuda/kernels/l2_penalty.h"
#include "backend/cuda/kernels/step/result.h"
#include "cuda/kernels/array.h"

namespace trainer::test {
namespace {

namespace cuda = backend::cuda;

// Fewer numbers than a warp, a few per thread, more than a block.
constexpr std::int64_t kClasses[] = {2, 10, 33, 130, 1003};

Device<cuda::StepScalars> make_scalars(float gradient_scale) {
  cuda::StepScalars scalars = {};
  scalars.gradient_scale = gradient_scale;
  return Device<cuda::StepScalars>(scalars);
}
Device<cuda::StepState> make_state(float loss_scale) {
  cuda::StepState state = {};
  state.loss_scale = loss_scale;
  return Device<cuda::StepState>(state);
}

Array make_labels(DType type, std::int64_t rows, std::int64_t n, bool binary) {
  if (type == DType::kInt32) {
    return Array::random(type, {rows}, 21, 0, static_cast<double>(n == 1 ? 2 : n));
  }
  Array labels = Array::random(kF32, {rows, n}, 22, 0, 1);
  if (binary) return labels;
  for (std::int64_t r = 0; r < rows; ++r) {
    double sum = 0;
    for (std::int64_t i = 0; i < n; ++i) sum += labels[r * n + i];
    for (std::int64_t i = 0; i < n; ++i) labels.set(r * n + i, labels[r * n + i] / sum);
  }
  return labels;
}

// Each `unknown_every`-th target is NaN, if it is not 0.
void check_loss(const graph::Loss& op, DType type, DType label_type, std::int64_t n,
                std::int64_t unknown_every = 0) {
  const std::int64_t rows = 9;
  const LossKind kind = op.kind;
  std::optional<Array> weights;
  const std::vector<float>& factors = op.class_weight.empty() ? op.target_weight : op.class_weight;
  if (!factors.empty()) {
    const auto count = static_cast<std::int64_t>(factors.size());
    weights.emplace(kF32, Tensor{{count}, std::vector<double>(factors.begin(), factors.end())});
  }
  const float* weight = weights ? weights->as<float>() : nullptr;
  Array x = Array::random(type, {rows, n}, 20, -5, 5);
  Array labels = make_labels(label_type, rows, n, kind == LossKind::kBinaryCrossEntropy);
  for (std::int64_t i = 0; unknown_every > 0 && i < rows * n; i += unknown_every) {
    labels.set(i, std::nan(""));
  }
  auto scalars = make_scalars(0.125f);
  auto state = make_state(64);
  backend::Scalars reference;
  reference.loss_scale = 8;  // of both
  const std::vector<Tensor> want =
      evaluate_op(op, {x.tensor(), labels.tensor()}, {{rows}, {rows, n}}, reference);
  for (const DType gradient_type : kFloatTypes) {
    const std::vector<Array> got = check_repeats([&] {
      std::vector<Array> made;
      made.emplace_back(kF32, Shape{rows});
      made.emplace_back(gradient_type, Shape{rows, n});
      cuda::loss(op, x.data(), type, labels.data(), label_type, weight, made[0].as<float>(),
                 made[1].data(), gradient_type, scalars.get(), state.get(), rows, n, nullptr);
      return made;
    });
    check_close(got[0], want[0], 2e-5);
    check_close(got[1], want[1], gradient_type == kF32 ? 1e-5 : 1e-4);
  }
  Array alone(kF32, Shape{rows});
  cuda::loss(op, x.data(), type, labels.data(), label_type, weight, alone.as<float>(), nullptr,
             kF32, nullptr, nullptr, rows, n, nullptr);
  check_close(alone, want[0], 2e-5);
}

void check_loss(LossKind kind, DType type, DType label_type, std::int64_t n) {
  graph::Loss op;
  op.kind = kind;
  op.label_smoothing = kind == LossKind::kMeanSquaredError ? 0 : 0.1f;
  op.gradient = true;
  check_loss(op, type, label_type, n);
}

}  // namespace

TEST_CASE("cuda softmax: rows and their gradients match the reference") {
  for (const DType type : kFloatTypes) {
    for (const std::int64_t n : kClasses) {
      const std::int64_t rows = 5;
      Array x = Array::random(type, {rows, n}, 11, -6, 6), y(type, Shape{rows, n});
      cuda::enqueue(graph::Softmax{}, {x.data()}, y.data(), type, {.n = rows, .c = n}, nullptr);
      check_close(y, evaluate_op(graph::Softmax{}, {x.tensor()}, {{rows, n}})[0],
                  type == DType::kFloat16 ? 1e-7 : 1e-8);
      Array dy = Array::random(type, {rows, n}, 12), dx(type, Shape{rows, n});
      cuda::enqueue(graph::SoftmaxBackward{}, {y.data(), dy.data()}, dx.data(), type,
                    {.n = rows, .c = n}, nullptr);
      const graph::SoftmaxBackward op;
      check_close(dx, evaluate_op(op, {y.tensor(), dy.tensor()}, {{rows, n}})[0], 1e-6);
    }
  }
}

TEST_CASE("cuda softmax: large logits do not overflow") {
  Array x(kF32, Tensor{{1, 3}, {1e30, -1e30, 1e30}}), y(kF32, Shape{1, 3});
  cuda::enqueue(graph::Softmax{}, {x.data()}, y.data(), kF32, {.c = 3}, nullptr);
  check_close(y, Tensor{{1, 3}, {0.5, 0, 0.5}});
}

TEST_CASE("cuda loss: softmax cross-entropy matches the reference") {
  for (const DType type : kFloatTypes) {
    for (const std::int64_t n : kClasses) {
      check_loss(LossKind::kSoftmaxCrossEntropy, type, DType::kInt32, n);
      check_loss(LossKind::kSoftmaxCrossEntropy, type, kF32, n);
    }
  }
}

TEST_CASE("cuda loss: binary cross-entropy matches the reference") {
  for (const DType type : kFloatTypes) {
    for (const std::int64_t n : {1, 7, 200}) {
      check_loss(LossKind::kBinaryCrossEntropy, type, DType::kInt32, n);
      check_loss(LossKind::kBinaryCrossEntropy, type, kF32, n);
    }
  }
  graph::Loss op{LossKind::kBinaryCrossEntropy, 0.2f, true};
  op.smoothing_centre = 0.1f;
  op.target_threshold = 0.3f;
  check_loss(op, kF32, DType::kInt32, 10);
  check_loss(op, kF32, kF32, 10);
}

TEST_CASE("cuda loss: mean squared error matches the reference") {
  for (const DType type : kFloatTypes) {
    for (const std::int64_t n : {1, 10, 300}) {
      check_loss(LossKind::kMeanSquaredError, type, kF32, n);
      check_loss(LossKind::kMeanSquaredError, type, DType::kInt32, n);
    }
  }
}

TEST_CASE("cuda loss: focal terms and weights of classes match the reference") {
  for (const LossKind kind : {LossKind::kSoftmaxCrossEntropy, LossKind::kBinaryCrossEntropy}) {
    for (const std::int64_t n : {1, 7, 300}) {
      if (kind == LossKind::kSoftmaxCrossEntropy && n == 1) continue;  // its chance is always 1
      for (const bool is_focal : {true, false}) {
        graph::Loss op;
        op.kind = kind;
        op.gradient = true;
        if (is_focal) op.focal = {n == 7 ? 0.5f : 2.0f, n == 1 ? -1.0f : 0.3f};
        if (!is_focal || n > 1) {
          for (std::int64_t c = 0; c < std::max<std::int64_t>(n, 2); ++c) {
            op.class_weight.push_back(0.5f + 0.25f * static_cast<float>(c % 5));
          }
        }
        check_loss(op, kF32, kF32, n);
        check_loss(op, kF32, DType::kInt32, n);
      }
    }
  }
}

TEST_CASE("cuda loss: unknown targets and weights of targets match the reference") {
  for (const std::int64_t n : {1, 7, 300}) {
    for (const bool is_focal : {false, true}) {
      for (const bool is_weighted : {false, true}) {
        graph::Loss op;
        op.kind = LossKind::kBinaryCrossEntropy;
        op.gradient = true;
        if (is_focal) op.focal = {2.0f, 0.3f};
        for (std::int64_t i = 0; is_weighted && i < 2 * n; ++i) {
          op.target_weight.push_back(0.25f + 0.5f * static_cast<float>(i % 7));
        }
        check_loss(op, kF32, kF32, n, 3);
      }
    }
  }
}

TEST_CASE("cuda loss: NaN and infinite logits make losses that are not finite") {
  for (const double bad : {std::nan(""), std::numeric_limits<double>::infinity()}) {
    Array x = Array::random(kF32, {3, 40}, 1);
    x.set(40 + 33, bad);
    Array labels = Array::random(DType::kInt32, {3}, 2, 0, 40), losses(kF32, Shape{3});
    cuda::loss({}, x.data(), kF32, labels.data(), DType::kInt32, nullptr, losses.as<float>(),
               nullptr, kF32, nullptr, nullptr, 3, 40, nullptr);
    CHECK(std::isfinite(losses[0]));
    CHECK_FALSE(std::isfinite(losses[1]));
    CHECK(std::isfinite(losses[2]));
  }
}

TEST_CASE("cuda class_rank handles ties, indices, targets and single logits") {
  for (const DType type : kFloatTypes) {
    for (const std::int64_t n : {1, 2, 10, 130, 1003}) {
      for (const DType label_type : {DType::kInt32, kF32}) {
        const std::int64_t rows = 11;
        // Few different values, so that there are ties.
        Array x = Array::random(DType::kInt32, {rows, n}, 5, -4, 4);
        Array logits(type, x.tensor());
        Array labels = label_type == kF32
                           ? Array(kF32, Array::random(DType::kInt32, {rows, n}, 6, 0, 9).tensor())
                           : Array::random(label_type, {rows}, 6, 0, n == 1 ? 2 : double(n));
        if (n == 1 && label_type == kF32) {
          for (std::int64_t i = 0; i < rows; ++i) labels.set(i, static_cast<double>(i % 2));
        }
        const graph::ClassRank op{0.5f};
        Array ranks(DType::kInt32, Shape{rows});
        cuda::class_rank(op, logits.data(), type, labels.data(), label_type,
                         ranks.as<std::int32_t>(), rows, n, nullptr);
        check_equal(ranks, evaluate_op(op, {logits.tensor(), labels.tensor()}, {{rows}})[0]);
      }
    }
  }
}

TEST_CASE(
    "cuda penalty: squares and absolutes of few and many numbers are the same bits in any order") {
  for (const std::int64_t count : {1, 255, 4096, 100003}) {
    for (const graph::L2Penalty& op :
         {graph::L2Penalty{0.3f, 0}, graph::L2Penalty{0, 0.2f}, graph::L2Penalty{0.3f, 0.2f}}) {
      Array w = Array::random(kF32, {count}, 3);
      const std::vector<Array> got = check_repeats([&] {
        std::vector<double> scratch(1024, std::nan(""));
        std::vector<Array> made;
        made.emplace_back(kF32, Shape{1});
        cuda::penalty(op, w.as<float>(), count, made[0].as<float>(), scratch.data(), nullptr);
        return made;
      });
      check_close(got[0], evaluate_op(op, {w.tensor()}, {{1}})[0]);
    }
  }
}

TEST_CASE("cuda add_to_result sums parts of a call in sample order") {
  const std::int64_t samples = 700;
  Array losses = Array::random(kF32, {2, samples}, 1, 0, 3);
  Array ranks = Array::random(DType::kInt32, {2, samples}, 2, 0, 3);
  Array penalty(kF32, Tensor{{2}, {0.25, 100}});
  cuda::DeviceResult stale = {};
  stale.loss = std::nan("");
  stale.penalty = 5;
  stale.correct = 77;
  Device<cuda::DeviceResult> result(stale);
  double loss = 0;
  std::int64_t correct = 0;
  for (const std::int64_t part : {0, 1}) {
    cuda::add_to_result(losses.as<float>() + part * samples,
                        ranks.as<std::int32_t>() + part * samples, penalty.as<float>() + part,
                        samples, part == 0, result.get(), nullptr);
    for (std::int64_t i = 0; i < samples; ++i) {
      loss += losses[part * samples + i];
      correct += ranks[part * samples + i] == 0 ? 1 : 0;
    }
    CHECK(result->loss == loss);
    CHECK(result->correct == correct);
    CHECK(result->penalty == 0.25);
    CHECK(result->finite);
    CHECK_FALSE(result->skipped);
  }
}

TEST_CASE("cuda add_to_result notes a loss that is not finite and does not count null arrays") {
  Array losses = Array::random(kF32, {300}, 1, 0, 3);
  losses.set(299, std::numeric_limits<double>::infinity());
  Device<cuda::DeviceResult> result({});
  cuda::add_to_result(losses.as<float>(), nullptr, nullptr, 300, true, result.get(), nullptr);
  CHECK_FALSE(result->finite);
  CHECK(result->correct == 0);
  CHECK(result->penalty == 0);
  cuda::add_to_result(losses.as<float>(), nullptr, nullptr, 10, false, result.get(), nullptr);
  CHECK_FALSE(result->finite);
  cuda::add_to_result(nullptr, nullptr, nullptr, 0, true, result.get(), nullptr);
  CHECK(result->finite);
  CHECK(result->loss == 0);
}

}  // namespace trainer::test
