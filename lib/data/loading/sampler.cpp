// The order of samples as a bijection that is computed, not stored: an alternating Feistel network
// over the next power of two, walked until it lands inside [0, size). Nothing is kept between
// calls, so any thread can ask for any place of any epoch.
#include <algorithm>
#include <array>
#include <bit>
#include <numeric>

#include "base/error.h"
#include "base/random.h"
#include "data/loader.h"

namespace trainer::data {
namespace {

constexpr std::size_t kRounds = 8;

// A well-mixed 64-bit function of one half and the round's key (the finaliser of MurmurHash3).
std::uint64_t mix(std::uint64_t x, std::uint64_t key) {
  x = (x + key) * 0xFF51AFD7ED558CCDu;
  x = (x ^ x >> 33) * 0xC4CEB9FE1A85EC53u;
  return x ^ x >> 33;
}

}  // namespace

Sampler::Sampler(std::int64_t size, std::uint64_t seed, bool shuffle)
    : size_(size), seed_(seed), shuffle_(shuffle) {}

void Sampler::indices(std::int64_t epoch, std::int64_t first, std::span<std::int64_t> out) const {
  std::iota(out.begin(), out.end(), first);
  if (!shuffle_ || size_ < 2) return;
  Random random(seed_, Stream::kShuffle, static_cast<std::uint64_t>(epoch));
  std::array<std::uint64_t, kRounds> keys;
  for (auto& key : keys) key = random.next_u64();

  const auto size = static_cast<std::uint64_t>(size_);
  // At least 256 places, so that small sets are mixed well too.
  const int bits = std::max(8, static_cast<int>(std::bit_width(size - 1)));
  const int low_bits = bits / 2;
  const std::uint64_t low_mask = (std::uint64_t{1} << low_bits) - 1;
  const std::uint64_t high_mask = (std::uint64_t{1} << (bits - low_bits)) - 1;
  for (std::int64_t& index : out) {
    auto x = static_cast<std::uint64_t>(index);
    do {
      std::uint64_t low = x & low_mask;
      std::uint64_t high = x >> low_bits;
      for (std::size_t round = 0; round < kRounds; round += 2) {
        high ^= mix(low, keys[round]) & high_mask;
        low ^= mix(high, keys[round + 1]) & low_mask;
      }
      x = high << low_bits | low;
    } while (x >= size);
    index = static_cast<std::int64_t>(x);
  }
}

std::int64_t Sampler::index(std::int64_t epoch, std::int64_t position) const {
  std::int64_t result = 0;
  indices(epoch, position, {&result, 1});
  return result;
}

std::int64_t batches_per_epoch(std::int64_t samples, std::int64_t batch_size) {
  return (samples + batch_size - 1) / batch_size;
}

BatchRange batch_range(std::int64_t samples, std::int64_t batch_size, std::int64_t step) {
  const std::int64_t per_epoch = batches_per_epoch(samples, batch_size);
  const std::int64_t first = step % per_epoch * batch_size;
  return {step / per_epoch, first, std::min(batch_size, samples - first)};
}

}  // namespace trainer::data
