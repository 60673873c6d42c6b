// Where the time of reading samples goes, on the thread that reads.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>

namespace trainer::data {

enum class ReadStage {
  kRead,    // bytes of a file
  kDecode,  // to pixels
  kResize,  // and cut
  kAugment,
};
constexpr std::size_t kReadStages = 4;
const char* name_of(ReadStage stage);  // "decode"

// While it lives, adds up what the samples that this thread reads take, by stage. One a thread.
class StageWatch {
 public:
  StageWatch();
  ~StageWatch();
  StageWatch(const StageWatch&) = delete;
  StageWatch& operator=(const StageWatch&) = delete;
  double seconds(ReadStage stage) const { return seconds_[static_cast<std::size_t>(stage)]; }
  double seconds() const;  // of all

 private:
  friend class StageTimer;
  std::array<double, kReadStages> seconds_{};
};

// The time of its life is of the stage; no clock is read when nobody watches this thread.
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
