#include "data/decode/pixels.h"

namespace trainer::data {

void Pixels::reset(int height, int width, int channels) {
  height_ = height;
  width_ = width;
  channels_ = channels;
  if (size() <= capacity_) return;
  capacity_ = size();
  memory_ = std::make_unique_for_overwrite<std::uint8_t[]>(capacity_);
}

}  // namespace trainer::data
