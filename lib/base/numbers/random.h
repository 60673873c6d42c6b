// Counter-based random numbers: every draw is a pure function of (key, counter), so that the same
// sample gets the same numbers on any number of threads, replicas or workers, and nothing has to be
// saved to resume.
//
// Philox4x32-10: Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011.
#pragma once

#include <array>
#include <cstdint>

namespace trainer {

// The purpose of a stream of numbers; streams of different purposes never share numbers.
enum class Stream : std::uint32_t {
  kInitialise = 1,  // one per parameter
  kShuffle = 2,     // one per epoch
  kAugment = 3,     // one per (epoch, sample)
  kDropout = 4,     // one per (layer, step)
  kSynthetic = 5,   // generated data sets
  kSplit = 6,       // train/validation split
  kReplace = 7,     // the substitute of a damaged image, one per sample
  kMix = 8,         // mixup and cutmix, one per (epoch, sample)
  kErase = 9        // the pixels of an erased part, whose seed is drawn from kAugment
};

constexpr std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter,
                                                  std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53u} * counter[0];
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57u} * counter[2];
    counter = {
        static_cast<std::uint32_t>(p1 >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(p1),
        static_cast<std::uint32_t>(p0 >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(p0)};
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return counter;
}

// A sequence of draws for one (seed, stream, a, b): e.g. a = epoch, b = sample index.
class Random {
 public:
  Random(std::uint64_t seed, Stream stream, std::uint64_t a = 0, std::uint64_t b = 0)
      : key_{static_cast<std::uint32_t>(seed) ^ (static_cast<std::uint32_t>(stream) << 24),
             static_cast<std::uint32_t>(seed >> 32) ^ static_cast<std::uint32_t>(a >> 32)},
        counter_{0, static_cast<std::uint32_t>(b), static_cast<std::uint32_t>(b >> 32),
                 static_cast<std::uint32_t>(a)} {}

  std::uint32_t next_u32() {
    if (used_ == 4) {
      block_ = philox4x32(counter_, key_);
      ++counter_[0];
      used_ = 0;
    }
    return block_[used_++];
  }
  std::uint64_t next_u64() {
    const std::uint64_t high = next_u32();
    return high << 32 | next_u32();
  }
  // Uniform in [0, 1), 24 random bits.
  float uniform() { return static_cast<float>(next_u32() >> 8) * 0x1.0p-24f; }
  float uniform(float low, float high) { return low + (high - low) * uniform(); }
  // Uniform in [0, n), without bias (Lemire's method). n > 0.
  std::uint64_t below(std::uint64_t n);
  // Standard normal (Box-Muller, one value per call).
  float normal();

 private:
  std::array<std::uint32_t, 2> key_;
  std::array<std::uint32_t, 4> counter_;
  std::array<std::uint32_t, 4> block_{};
  int used_ = 4;
};

}  // namespace trainer
