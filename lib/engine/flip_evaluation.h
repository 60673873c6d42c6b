// Test-time augmentation: takes the mean of the results of each image and its mirror image.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "data/dataset.h"
#include "engine/engine.h"

namespace trainer::engine {

// Reverses the pixels of every row of `samples` images of this shape and type, packed.
void flip_images(const Shape& image, DType type, std::int64_t samples, const void* from,
                 std::vector<std::byte>& to);

// Calls Engine::evaluate() for a batch of images, and if asked to also for their mirror images.
class FlipEvaluation {
 public:
  // `flip` includes the mirror images. The engine must outlive this object.
  FlipEvaluation(Engine& engine, const data::DatasetSpec& samples, LossKind loss, bool flip)
      : engine_(engine), samples_(samples), loss_(loss), flip_(flip) {}

  void run(const HostBatch& batch, std::int64_t all_samples = 0);
  // The results of the last run, valid until the next one. With `flip`, logits are those of the
  // mean of the probabilities, and losses the mean of both losses.
  std::span<const float> logits() const { return flip_ ? logits_ : engine_.logits(); }
  std::span<const float> losses() const { return flip_ ? losses_ : engine_.evaluated_losses(); }

 private:
  Engine& engine_;
  data::DatasetSpec samples_;
  LossKind loss_;
  bool flip_;
  std::vector<std::byte> flipped_;
  std::vector<float> logits_, losses_;
};

}  // namespace trainer::engine
