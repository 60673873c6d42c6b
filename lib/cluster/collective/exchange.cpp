#include "cluster/collective/exchange.h"

#include <algorithm>
#include <cstring>

namespace trainer::cluster {

void run_exchanges(Transport& transport, std::vector<Exchange>& exchanges) {
  const auto is_done = [](const Exchange& exchange) {
    return exchange.out.empty() && exchange.in.empty();
  };
  std::vector<Transport::Direction> waits;
  while (true) {
    bool any = false;
    for (Exchange& exchange : exchanges) {
      const std::size_t sent = transport.send_some(exchange.peer, exchange.out);
      const std::size_t received = transport.receive_some(exchange.peer, exchange.in);
      exchange.out = exchange.out.subspan(sent);
      exchange.in = exchange.in.subspan(received);
      any = any || sent > 0 || received > 0;
    }
    std::erase_if(exchanges, is_done);
    if (exchanges.empty()) return;
    if (any) continue;
    waits.clear();
    for (const Exchange& exchange : exchanges) {
      waits.push_back({exchange.peer, !exchange.out.empty(), !exchange.in.empty()});
    }
    transport.wait(waits);
  }
}

bool is_short(std::size_t bytes_of_all_ranks) {
  constexpr std::size_t kMaxBytes = 64 << 10;
  return bytes_of_all_ranks <= kMaxBytes;
}

void broadcast(Transport& transport, std::span<std::byte> bytes, int root) {
  const std::size_t ranks = transport.size;
  const bool is_whole = is_short(bytes.size() * ranks);
  const std::size_t length = is_whole ? bytes.size() : (bytes.size() + ranks - 1) / ranks;
  const auto part = [&](int rank) {
    const std::size_t first = is_whole ? 0 : std::min(bytes.size(), rank * length);
    return bytes.subspan(first, std::min(bytes.size() - first, length));
  };
  const int rank = transport.rank;
  std::vector<Exchange> scatter, gather;
  for (int peer = 0; peer < transport.size; ++peer) {
    if (peer == rank) continue;
    if (rank == root) scatter.push_back({peer, part(peer), {}});
    if (peer == root) scatter.push_back({peer, {}, part(rank)});
    gather.push_back({peer, peer == root ? std::span<std::byte>() : part(rank),
                      rank == root ? std::span<std::byte>() : part(peer)});
  }
  run_exchanges(transport, scatter);
  if (!is_whole) run_exchanges(transport, gather);
}

void all_gather(Transport& transport, std::span<const std::byte> sent, std::span<std::byte> all) {
  std::vector<Exchange> exchanges;
  for (int rank = 0; rank < transport.size; ++rank) {
    const std::span<std::byte> part = all.subspan(rank * sent.size(), sent.size());
    if (rank == transport.rank) {
      std::memmove(part.data(), sent.data(), sent.size());
    } else {
      exchanges.push_back({rank, sent, part});
    }
  }
  run_exchanges(transport, exchanges);
}

}  // namespace trainer::cluster
