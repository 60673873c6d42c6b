#include "cluster/collective/direct.h"

#include <algorithm>
#include <cstring>

#include "cluster/collective/reduce.h"

namespace trainer::cluster {
namespace {

// What is sent to a rank and received from it.
struct Exchange {
  int peer;
  std::span<const std::byte> out;
  std::span<std::byte> in;
};

void run(Transport& transport, std::vector<Exchange> exchanges) {
  std::vector<Transport::Direction> waits;
  while (!exchanges.empty()) {
    bool any = false;
    waits.clear();
    for (Exchange& exchange : exchanges) {
      const std::size_t sent = transport.send_some(exchange.peer, {}, exchange.out);
      const std::size_t received = transport.receive_some(exchange.peer, {}, exchange.in);
      exchange.out = exchange.out.subspan(sent);
      exchange.in = exchange.in.subspan(received);
      any = any || sent > 0 || received > 0;
      if (!exchange.out.empty() || !exchange.in.empty()) {
        waits.push_back({exchange.peer, !exchange.out.empty(), !exchange.in.empty()});
      }
    }
    std::erase_if(exchanges, [](const Exchange& exchange) {
      return exchange.out.empty() && exchange.in.empty();
    });
    if (!any && !exchanges.empty()) transport.wait(waits);
  }
}

}  // namespace

bool is_direct(std::size_t bytes_of_all_ranks, int ranks) {
  constexpr std::size_t kMaxBytes = 64 << 10;
  return bytes_of_all_ranks <= kMaxBytes && ranks <= kMaxDirectRanks;
}

void direct_broadcast(Transport& transport, std::span<std::byte> bytes, int root) {
  std::vector<Exchange> exchanges;
  if (transport.rank != root) {
    exchanges.push_back({root, {}, bytes});
  } else {
    for (int peer = 0; peer < transport.size; ++peer) {
      if (peer != root) exchanges.push_back({peer, bytes, {}});
    }
  }
  run(transport, std::move(exchanges));
}

void direct_all_gather(Transport& transport, std::span<const std::byte> sent,
                       std::span<std::byte> all) {
  std::vector<Exchange> exchanges;
  for (int rank = 0; rank < transport.size; ++rank) {
    const std::span<std::byte> part = all.subspan(rank * sent.size(), sent.size());
    if (rank == transport.rank) {
      std::memmove(part.data(), sent.data(), sent.size());
    } else {
      exchanges.push_back({rank, sent, part});
    }
  }
  run(transport, std::move(exchanges));
}

void direct_sum(Transport& transport, std::span<std::int64_t> values) {
  const std::vector<std::int64_t> sent(values.begin(), values.end());
  std::vector<std::int64_t> all(sent.size() * transport.size);
  direct_all_gather(transport, std::as_bytes(std::span(sent)),
                    std::as_writable_bytes(std::span(all)));
  std::ranges::fill(values, 0);
  for (std::size_t at = 0; at < all.size(); at += sent.size()) {
    add(values.data(), values.data(), all.data() + at, sent.size());
  }
}

template <class T>
void direct_ring(Transport& transport, std::span<T> values, std::vector<T>& scratch) {
  const std::size_t ranks = transport.size;
  const std::size_t this_rank = transport.rank;
  // Gloo divides the values into two segments per rank, each of at most a megabyte.
  const std::size_t length = 2 * ((values.size() + 2 * ranks - 1) / (2 * ranks));
  const auto part = [&](std::size_t rank) {
    const std::size_t first = std::min(values.size(), rank * length);
    return values.subspan(first, std::min(values.size() - first, length));
  };
  const std::span<T> own_part = part(this_rank);
  scratch.resize(ranks * own_part.size());
  const auto received = [&](std::size_t rank) {
    return rank == this_rank
               ? own_part
               : std::span<T>(scratch).subspan(rank * own_part.size(), own_part.size());
  };
  std::vector<Exchange> scatter, gather;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    if (rank == this_rank) continue;
    const int peer = static_cast<int>(rank);
    scatter.push_back({peer, std::as_bytes(part(rank)), std::as_writable_bytes(received(rank))});
    gather.push_back({peer, std::as_bytes(own_part), std::as_writable_bytes(part(rank))});
  }
  run(transport, std::move(scatter));
  // The part travels from the rank before its owner down to the owner, which adds its values last.
  const std::span<T> sum = received((this_rank + ranks - 1) % ranks);
  for (std::size_t distance = 2; distance <= ranks; ++distance) {
    const std::span<T> next = received((this_rank + ranks - distance) % ranks);
    add(distance == ranks ? own_part.data() : sum.data(), sum.data(), next.data(), sum.size());
  }
  run(transport, std::move(gather));
}

template void direct_ring(Transport&, std::span<float>, std::vector<float>&);
template void direct_ring(Transport&, std::span<double>, std::vector<double>&);
template void direct_ring(Transport&, std::span<std::int64_t>, std::vector<std::int64_t>&);

}  // namespace trainer::cluster
