#include "cluster/collective/halving_doubling.h"

#include <utility>
#include <vector>

#include "cluster/collective/reduce.h"

namespace trainer::cluster {
namespace {

constexpr std::size_t kSmall = 16 << 10;  // bytes; up to here, latency is all

// Adds what the peer sends to `keep`, while `give` goes out; they may be the same.
template <class T>
void exchange_and_add(Transport& transport, int peer, std::span<const T> give, std::span<T> keep) {
  T* next = keep.data();
  transport.exchange(peer, std::as_bytes(give), keep.size_bytes(),
                     [&](std::span<const std::byte> piece) {
                       const std::size_t count = piece.size() / sizeof(T);
                       add(next, next, reinterpret_cast<const T*>(piece.data()), count);
                       next += count;
                     });
}

// The farthest pair exchanges all that it has: as many bytes as halves there and back, in one
// round. Few bytes go whole from the first round on.
template <class T>
void sum(Transport& transport, std::span<T> values) {
  struct Step {
    int peer;
    std::span<T> keep, give;
  };
  std::vector<Step> steps;
  const bool small = values.size_bytes() <= kSmall;
  for (int distance = 1; distance < transport.size; distance *= 2) {
    const int peer = transport.rank ^ distance;
    if (small || distance * 2 == transport.size) {
      exchange_and_add<T>(transport, peer, values, values);
      continue;
    }
    const std::size_t middle = values.size() / 2;
    Step step{peer, values.first(middle), values.subspan(middle)};
    if ((transport.rank & distance) != 0) std::swap(step.keep, step.give);
    exchange_and_add<T>(transport, peer, step.give, step.keep);
    values = step.keep;
    steps.push_back(step);
  }
  for (; !steps.empty(); steps.pop_back()) {
    const Step& step = steps.back();
    transport.exchange(step.peer, std::as_bytes(step.keep), std::as_writable_bytes(step.give));
  }
}

}  // namespace

void halving_doubling(Transport& transport, std::span<float> values) { sum(transport, values); }
void halving_doubling(Transport& transport, std::span<double> values) { sum(transport, values); }
void halving_doubling(Transport& transport, std::span<std::int64_t> values) {
  sum(transport, values);
}

}  // namespace trainer::cluster
