#include "engine/flip_evaluation.h"

#include <cstring>

#include "engine/metrics/ensemble.h"

namespace trainer::engine {
void flip_images(const Shape& image, DType type, std::int64_t samples, const void* from,
                 std::vector<std::byte>& to) {
  const auto pixel = static_cast<std::size_t>(image[2]) * size_of(type);
  const std::size_t width = image[1];
  const std::size_t rows = samples * image[0];
  to.resize(rows * width * pixel);
  const auto* source = static_cast<const std::byte*>(from);
  for (std::size_t row = 0; row < rows; ++row) {
    const std::size_t start = row * width * pixel;
    for (std::size_t x = 0; x < width; ++x) {
      std::memcpy(to.data() + start + x * pixel, source + start + (width - 1 - x) * pixel, pixel);
    }
  }
}

void FlipEvaluation::run(const HostBatch& batch, std::int64_t all_samples) {
  engine_.evaluate(batch, all_samples);
  if (!flip_) return;
  const std::size_t count = batch.samples;
  const std::size_t width = engine_.replica().outputs();
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
    average_probabilities(loss_, {own, engine_.logits().subspan(i * width, width)}, own);
    losses_[i] = (losses_[i] + engine_.evaluated_losses()[i]) / 2;
  }
}

}  // namespace trainer::engine
