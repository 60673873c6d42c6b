// Test-time augmentation: the mean of each image's result and that of its mirror image.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "data/dataset.h"
#include "engine/replicas.h"

namespace trainer::engine {

// Reverses the pixels of every row of `samples` images of this shape and type, packed.
void flip_images(const Shape& image, DType type, std::int64_t samples, const void* from,
                 std::vector<std::byte>& to);

// The logits of the mean of two samples' probabilities: of softmax_cross_entropy their logarithms,
// of binary_cross_entropy log(p / (1 - p)); of mean_squared_error the mean itself. `mean` may be
// one of them.
void mean_of_probabilities(LossKind loss, std::span<const float> one, std::span<const float> other,
                           std::span<float> mean);

// Replicas::evaluate() of a batch of images, once or with their mirror images, left to right.
class FlipEvaluation {
 public:
  // `flip`: with mirror images. The engine must outlive this object.
  FlipEvaluation(Replicas& engine, const data::DatasetSpec& samples, LossKind loss, bool flip)
      : engine_(engine), samples_(samples), loss_(loss), flip_(flip) {}

  void run(const HostBatch& batch, std::int64_t all_samples = 0);
  // As Replicas's, valid until the next run: logits are those of the mean of the probabilities,
  // losses the mean of both losses.
  std::span<const float> logits() const { return flip_ ? logits_ : engine_.logits(); }
  std::span<const float> losses() const { return flip_ ? losses_ : engine_.evaluated_losses(); }

 private:
  Replicas& engine_;
  data::DatasetSpec samples_;
  LossKind loss_;
  bool flip_;
  std::vector<std::byte> flipped_;
  std::vector<float> logits_, losses_;
};

}  // namespace trainer::engine
