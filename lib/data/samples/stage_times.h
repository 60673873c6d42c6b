// Measures the stages of reading samples on the thread that reads.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>

#include "base/spelling.h"

namespace trainer::data {

enum class ReadStage {
  kRead,    // the bytes of a file
  kDecode,  // bytes to pixels
  kResize,  // cut and resize
  kAugment,
};
constexpr std::size_t kReadStages = 4;
constexpr auto spellings(ReadStage) {
  using enum ReadStage;
  return std::to_array<Spelling<ReadStage>>(
      {{kRead, "read"}, {kDecode, "decode"}, {kResize, "resize"}, {kAugment, "augment"}});
}

// Adds up the times by stage of the samples that this thread reads while the object lives. A thread
// may have one.
class StageWatch {
 public:
  StageWatch();
  ~StageWatch();
  StageWatch(const StageWatch&) = delete;
  StageWatch& operator=(const StageWatch&) = delete;
  double seconds(ReadStage stage) const { return seconds_[static_cast<std::size_t>(stage)]; }
  double seconds() const;  // the sum over all stages

 private:
  friend class StageTimer;
  std::array<double, kReadStages> seconds_{};
};

// Adds the time of its life to the stage. Reads the clock only if the thread has a StageWatch.
class StageTimer {
 public:
  explicit StageTimer(ReadStage stage);
  ~StageTimer();
  StageTimer(const StageTimer&) = delete;
  StageTimer& operator=(const StageTimer&) = delete;

 private:
  StageWatch* watch_;
  ReadStage stage_;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace trainer::data
