#include "data/decode/pixels.h"

#include <algorithm>

namespace trainer::data {

void Pixels::reset(int height, int width, int channels) {
  height_ = height;
  width_ = width;
  channels_ = channels;
  if (size() <= capacity_ && capacity_ <= std::max(size(), kMaxKeptBytes)) return;
  memory_.reset();
  capacity_ = size();
  memory_ = std::make_unique_for_overwrite<std::uint8_t[]>(capacity_);
}

}  // namespace trainer::data
