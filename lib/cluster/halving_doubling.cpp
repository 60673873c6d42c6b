#include "cluster/halving_doubling.h"

#include <vector>

#include "cluster/reduce.h"

namespace trainer::cluster {
namespace {

constexpr std::size_t kSmall =
    16 << 10;  // bytes; up to here, latency is all: exchange everything at once

// Adds what the peer sends to `keep`, while `give` goes out.
template <class T>
void exchange_and_add(Wires& wires, int peer, std::span<const T> give, std::span<T> keep) {
  T* next = keep.data();
  wires.exchange(peer, std::as_bytes(give), keep.size_bytes(),
                 [&](std::span<const std::byte> piece) {
                   const std::size_t count = piece.size() / sizeof(T);
                   add(next, next, reinterpret_cast<const T*>(piece.data()), count);
                   next += count;
                 });
}

template <class T>
void sum_small(Wires& wires, std::span<T> values) {
  std::vector<T> mine(values.size());
  for (int distance = 1; distance < wires.size; distance *= 2) {
    std::copy(values.begin(), values.end(), mine.begin());
    exchange_and_add<T>(wires, wires.rank ^ distance, mine, values);
  }
}

template <class T>
void sum(Wires& wires, std::span<T> values) {
  if (values.size_bytes() <= kSmall) {
    sum_small(wires, values);
    return;
  }
  struct Step {
    std::span<T> keep, give;
  };
  std::vector<Step> steps;
  for (int distance = 1; distance < wires.size; distance *= 2) {
    const std::size_t middle = values.size() / 2;
    Step step{values.first(middle), values.subspan(middle)};
    if ((wires.rank & distance) != 0) std::swap(step.keep, step.give);
    exchange_and_add<T>(wires, wires.rank ^ distance, step.give, step.keep);
    values = step.keep;
    steps.push_back(step);
  }
  for (int distance = wires.size / 2; distance > 0; distance /= 2) {
    const Step step = steps.back();
    wires.exchange(wires.rank ^ distance, std::as_bytes(step.keep),
                   std::as_writable_bytes(step.give));
    steps.pop_back();
  }
}

}  // namespace

void halving_doubling(Wires& wires, std::span<float> values) { sum(wires, values); }
void halving_doubling(Wires& wires, std::span<double> values) { sum(wires, values); }
void halving_doubling(Wires& wires, std::span<std::int64_t> values) { sum(wires, values); }

}  // namespace trainer::cluster
