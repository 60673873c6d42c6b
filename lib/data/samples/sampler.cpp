// The order of samples as a bijection that is computed, not stored: an alternating Feistel network
// over the next power of two, applied until the result is inside [0, size). It has no state, so
// that any thread can compute any place of any epoch.
#include "data/samples/sampler.h"

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "base/numbers/random.h"

namespace trainer::data {
namespace {

constexpr std::size_t kRounds = 8;

// Mixes one half with the key of a round to 64 bits (the finaliser of MurmurHash3).
std::uint64_t mix(std::uint64_t x, std::uint64_t key) {
  x = (x + key) * 0xFF51AFD7ED558CCDu;
  x = (x ^ x >> 33) * 0xC4CEB9FE1A85EC53u;
  return x ^ x >> 33;
}

// A bijection of [0, size), which has at least two places, for each state of `random`.
class Permutation {
 public:
  Permutation(std::int64_t size, Random random)
      : size_(static_cast<std::uint64_t>(size)),
        // At least 256 places, so that small sets are mixed well too.
        bits_(std::max(8, static_cast<int>(std::bit_width(size_ - 1)))) {
    for (auto& key : keys_) key = random.next_u64();
  }
  std::int64_t operator()(std::int64_t place) const {
    const int low_bits = bits_ / 2;
    const std::uint64_t low_mask = (std::uint64_t{1} << low_bits) - 1;
    const std::uint64_t high_mask = (std::uint64_t{1} << (bits_ - low_bits)) - 1;
    auto x = static_cast<std::uint64_t>(place);
    do {
      std::uint64_t low = x & low_mask;
      std::uint64_t high = x >> low_bits;
      for (std::size_t round = 0; round < kRounds; round += 2) {
        high ^= mix(low, keys_[round]) & high_mask;
        low ^= mix(high, keys_[round + 1]) & low_mask;
      }
      x = high << low_bits | low;
    } while (x >= size_);
    return static_cast<std::int64_t>(x);
  }

 private:
  std::uint64_t size_;
  int bits_;
  std::array<std::uint64_t, kRounds> keys_;
};

using Classes = std::vector<std::vector<std::int64_t>>;

void add(Classes& classes, std::size_t number, std::size_t sample) {
  if (number >= classes.size()) classes.resize(number + 1);
  classes[number].push_back(static_cast<std::int64_t>(sample));
}

Classes group_by_class(const Dataset& dataset) {
  const std::vector<std::int32_t> labels = list_labels(dataset);
  const auto unknown = std::ranges::find_if(labels, [](auto label) { return label < 0; });
  if (unknown != labels.end()) {
    throw DataError(concat("sample ", dataset.describe(unknown - labels.begin())),
                    "has no known class, which data.sampling: balanced needs; use data.sampling: "
                    "uniform");
  }
  Classes classes;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    add(classes, labels[i], i);
  }
  return classes;
}

// The samples without a label are a class of their own, the first.
Classes group_by_label(const Dataset& dataset) {
  Classes classes;
  for (std::int64_t i = 0; i < dataset.size(); ++i) {
    const LabelSet labels = dataset.label_set_at(i);
    for (const std::int32_t label : labels.present) {
      add(classes, static_cast<std::size_t>(label) + 1, i);
    }
    if (labels.present.empty()) add(classes, 0, i);
  }
  return classes;
}

}  // namespace

Sampler::Sampler(std::int64_t size, std::uint64_t seed, bool shuffle)
    : size_(size), seed_(seed), shuffle_(shuffle) {}

Sampler::Sampler(std::vector<std::vector<std::int64_t>> classes, std::int64_t size,
                 std::uint64_t seed)
    : Sampler(size, seed, true) {
  classes_ = std::move(classes);
}

void Sampler::indices(std::int64_t epoch, std::int64_t first, std::span<std::int64_t> out) const {
  std::iota(out.begin(), out.end(), first);
  if (!shuffle_ || size_ < 2) return;
  const Permutation permutation(size_,
                                {seed_, Stream::kShuffle, static_cast<std::uint64_t>(epoch)});
  for (std::int64_t& index : out) index = permutation(index);
  if (!classes_.empty()) balance(epoch, out);
}

// With k classes, place p of the permuted epoch is the p / k-th sample of class p % k. A class runs
// through all its samples in rounds, each in an order of its own.
void Sampler::balance(std::int64_t epoch, std::span<std::int64_t> out) const {
  const auto count = std::ssize(classes_);
  for (std::int64_t& index : out) {
    const std::int64_t label = index % count, turn = index / count;
    const std::vector<std::int64_t>& samples = classes_[label];
    const auto size = std::ssize(samples);
    std::int64_t place = turn % size;
    if (size > 1) {
      const auto round = static_cast<std::uint64_t>(turn / size);
      const auto stream = round << 32 | static_cast<std::uint64_t>(label + 1);
      place = Permutation(
          size, {seed_, Stream::kShuffle, static_cast<std::uint64_t>(epoch), stream})(place);
    }
    index = samples[place];
  }
}

std::int64_t Sampler::index(std::int64_t epoch, std::int64_t position) const {
  std::int64_t result = 0;
  indices(epoch, position, {&result, 1});
  return result;
}

Sampler balanced_sampler(const Dataset& dataset, std::uint64_t seed) {
  Classes classes =
      dataset.spec().is_multi_label() ? group_by_label(dataset) : group_by_class(dataset);
  std::erase_if(classes, [](const auto& samples) { return samples.empty(); });
  return {std::move(classes), dataset.size(), seed};
}

std::int64_t samples_per_epoch(std::int64_t samples, std::int64_t batch_size, Remainder remainder) {
  return remainder == Remainder::kDrop ? samples / batch_size * batch_size : samples;
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
