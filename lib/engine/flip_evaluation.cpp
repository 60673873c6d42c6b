#include "engine/flip_evaluation.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace trainer::engine {
namespace {

// log(exp(a) + exp(b))
double log_sum(double a, double b) {
  const double larger = std::max(a, b);
  return larger + std::log1p(std::exp(std::min(a, b) - larger));
}

double log_sum(std::span<const float> logits) {
  const double largest = static_cast<double>(*std::max_element(logits.begin(), logits.end()));
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - largest);
  return largest + std::log(sum);
}

// log(1 / (1 + exp(-x)))
double log_sigmoid(double x) { return -log_sum(0, -x); }

}  // namespace

void flip_images(const Shape& image, DType type, std::int64_t samples, const void* from,
                 std::vector<std::byte>& to) {
  const auto pixel = static_cast<std::size_t>(image[2]) * size_of(type);
  const auto width = static_cast<std::size_t>(image[1]);
  const auto rows = static_cast<std::size_t>(samples * image[0]);
  to.resize(rows * width * pixel);
  const auto* source = static_cast<const std::byte*>(from);
  for (std::size_t row = 0; row < rows; ++row) {
    const std::size_t start = row * width * pixel;
    for (std::size_t x = 0; x < width; ++x) {
      std::memcpy(to.data() + start + x * pixel, source + start + (width - 1 - x) * pixel, pixel);
    }
  }
}

void mean_of_probabilities(LossKind loss, std::span<const float> one, std::span<const float> other,
                           std::span<float> mean) {
  const bool softmax = loss == LossKind::kSoftmaxCrossEntropy;
  const double one_sum = softmax ? log_sum(one) : 0, other_sum = softmax ? log_sum(other) : 0;
  for (std::size_t i = 0; i < mean.size(); ++i) {
    const auto a = static_cast<double>(one[i]), b = static_cast<double>(other[i]);
    double value = (a + b) / 2;
    if (softmax) {
      value = log_sum(a - one_sum, b - other_sum) - std::log(2.0);
    } else if (loss == LossKind::kBinaryCrossEntropy) {
      value = log_sum(log_sigmoid(a), log_sigmoid(b)) - log_sum(log_sigmoid(-a), log_sigmoid(-b));
    }
    mean[i] = static_cast<float>(value);
  }
}

void FlipEvaluation::run(const HostBatch& batch, std::int64_t all_samples) {
  engine_.evaluate(batch, all_samples);
  if (!flip_) return;
  const auto count = static_cast<std::size_t>(batch.samples);
  const auto width = static_cast<std::size_t>(engine_.outputs());
  const std::span<const float> logits = engine_.logits().first(count * width);
  const std::span<const float> losses = engine_.evaluated_losses().first(count);
  logits_.assign(logits.begin(), logits.end());
  losses_.assign(losses.begin(), losses.end());
  flip_images(samples_.image_shape, samples_.image_type, batch.samples, batch.input, flipped_);
  HostBatch flipped = batch;
  flipped.input = flipped_.data();
  engine_.evaluate(flipped, all_samples);
  for (std::size_t i = 0; i < count; ++i) {
    const std::span<float> own = std::span(logits_).subspan(i * width, width);
    mean_of_probabilities(loss_, own, engine_.logits().subspan(i * width, width), own);
    losses_[i] = (losses_[i] + engine_.evaluated_losses()[i]) / 2;
  }
}

}  // namespace trainer::engine
