// How many messages follow each other in the calls of ranks. Ranks that are far apart wait for the
// latency of each.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <mutex>

#include "cluster/collective/gloo_communicator.h"
#include "ranks.h"
#include "support/round_network.h"

namespace trainer::cluster::rounds_test {
namespace {

const auto kRing =
    std::make_shared<const AlgorithmTable>(AlgorithmTable{{~std::size_t{0}, Algorithm::kRing}});
constexpr int kRanks = 3;
// A thread that waits for a busy processor sends in a later round.
constexpr int kRoundsOfSlowThreads = 2;

struct Rank {
  std::shared_ptr<Rendezvous> rendezvous;
  Communicator& group;
};
using Call = std::function<void(const Rank&)>;

// Returns the rounds of each call, which all ranks begin together.
std::vector<int> count_rounds(const std::vector<Call>& calls) {
  const ReservedPort port;
  test::RoundNetwork rounds({"127.0.0.1", port.number()});
  std::vector<int> most(calls.size());
  std::mutex mutex;
  const auto messages = on_ranks(kRanks, [&](int rank) {
    RendezvousOptions options = kPatient;
    options.shared_memory = false;
    options.network = rounds.network(rank);
    const auto here =
        std::make_shared<Rendezvous>(identity_of(rank, kRanks, port.number()), options);
    const GroupPair groups = open_gloo_pair(here, kRing);
    for (std::size_t i = 0; i < calls.size(); ++i) {
      groups.first->barrier();
      const int before = rounds.rounds();
      calls[i]({here, *groups.second});
      const int after = rounds.rounds();
      const std::lock_guard lock(mutex);
      most[i] = std::max(most[i], after - before);
    }
    groups.first->barrier();
  });
  for (const std::string& message : messages) CHECK(message == "");
  return most;
}

}  // namespace

TEST_CASE("Communicator: few bytes, every call takes one message after the other ranks' data") {
  const std::vector<int> rounds = count_rounds({
      [](const Rank& rank) { rank.group.barrier(); },
      [](const Rank& rank) {
        std::array<std::int64_t, 5> values{};
        rank.group.all_reduce(std::span<std::int64_t>(values));
      },
      [](const Rank& rank) {
        std::array<std::byte, 3000> bytes{};
        rank.group.broadcast(bytes, 1);
      },
      [](const Rank& rank) {
        std::array<std::byte, 1000> mine{};
        std::array<std::byte, 3000> all{};
        rank.group.all_gather(mine, all);
      },
      [](const Rank& rank) {
        std::array<float, 300> values{};
        rank.group.all_reduce(std::span<float>(values));
      },
  });
  for (std::size_t call = 0; call < 4; ++call) {
    CAPTURE(call);
    CHECK(rounds[call] == 1);
  }
  // The ring: two messages for each rank but one, which keeps the bits of its sums.
  CHECK(rounds[4] == 2 * (kRanks - 1));
}

TEST_CASE("Rendezvous, open_gloo_pair: a start, about 16 rounds") {
  const ReservedPort port;
  test::RoundNetwork rounds({"127.0.0.1", port.number()});
  std::array<int, 3> ends{};
  const auto messages = on_ranks(kRanks, [&](int rank) {
    RendezvousOptions options = kPatient;
    options.shared_memory = false;
    options.network = rounds.network(rank);
    const auto here =
        std::make_shared<Rendezvous>(identity_of(rank, kRanks, port.number()), options);
    if (rank == 2) ends[0] = rounds.rounds();
    here->agree({{"config", "a"}, {"device", "b"}});
    if (rank == 2) ends[1] = rounds.rounds();
    const GroupPair groups = open_gloo_pair(here, kRing);
    if (rank == 2) ends[2] = rounds.rounds();
    groups.first->barrier();
  });
  for (const std::string& message : messages) CHECK(message == "");
  // Connect (3), challenge, greeting, welcome.
  CHECK(ends[0] <= 6 + kRoundsOfSlowThreads);
  // The values to rank 0, and its answer.
  CHECK(ends[1] - ends[0] <= 2 + kRoundsOfSlowThreads);
  // Addresses to rank 0 and back, connect (3), challenge, greeting, answer.
  CHECK(ends[2] - ends[1] <= 8 + kRoundsOfSlowThreads);
}

}  // namespace trainer::cluster::rounds_test
