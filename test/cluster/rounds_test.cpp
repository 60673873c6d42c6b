// How many messages follow each other in the calls of ranks. Ranks that are far apart wait for the
// latency of each.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <mutex>

#include "base/numbers/random.h"
#include "cluster/collective/peer_communicator.h"
#include "cluster/collective/ring_sum.h"
#include "cluster/transport/transport.h"
#include "ranks.h"
#include "support/round_network.h"

namespace trainer::cluster::rounds_test {
namespace {

constexpr int kRanks = 3;

// Returns numbers whose sum depends on the order.
std::vector<float> draw_values(int rank, std::size_t count) {
  std::vector<float> values;
  for (std::size_t i = 0; i < count; ++i) {
    values.push_back(Random(7, Stream::kSynthetic, static_cast<std::uint64_t>(rank), i).normal());
  }
  return values;
}

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
        std::make_shared<Rendezvous>(make_identity(rank, kRanks, port.number()), options);
    const GroupPair groups = open_group_pair(here, Algorithm::kRing);
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

TEST_CASE("Communicator: every call of few bytes takes one message, a sum of more bytes two") {
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
      [](const Rank& rank) {
        std::array<float, 300> values{};
        float* const root = values.data();
        rank.group.all_reduce_tree(4, std::span(&root, 1), values.size());
      },
      [](const Rank& rank) {
        std::vector<float> values(6000);
        rank.group.all_reduce(std::span<float>(values));
      },
  });
  for (std::size_t call = 0; call + 1 < rounds.size(); ++call) {
    CAPTURE(call);
    CHECK(rounds[call] == 1);
  }
  // A part of the values of every rank, and its sum.
  CHECK(rounds.back() == 2);
}

TEST_CASE("ring_sum adds the values of each part in the order of the ring") {
  for (const std::size_t size : {2, 3, 4, 5, 7}) {
    for (const bool shared_memory : {true, false}) {
      CAPTURE(size);
      CAPTURE(shared_memory);
      const ReservedPort port;
      const auto messages = on_ranks(static_cast<int>(size), [&](int rank) {
        RendezvousOptions options = kPatient;
        options.shared_memory = shared_memory;
        Rendezvous here(make_identity(rank, static_cast<int>(size), port.number()), options);
        Transport transport(here, "test");
        std::vector<float> scratch;
        for (const std::size_t count : {1, 3, 16, 17, 1000, 1031, 100'003}) {
          std::vector<std::vector<float>> all;
          for (std::size_t r = 0; r < size; ++r) {
            all.push_back(draw_values(static_cast<int>(r), count));
          }
          std::vector<float> values = all[static_cast<std::size_t>(rank)];
          transport.begin_call();
          ring_sum(transport, std::span(values), scratch);
          // A part has as many cache lines as any other, but for the last ones.
          const std::size_t part = (count + 16 * size - 1) / (16 * size) * 16;
          for (std::size_t i = 0; i < count; ++i) {
            const std::size_t owner = i / part;
            float sum = all[(owner + 1) % size][i];
            for (std::size_t step = 2; step <= size; ++step) sum += all[(owner + step) % size][i];
            if (values[i] != sum) throw CheckError(concat("element ", i, " of ", count));
          }
        }
        here.agree("end", "");
      });
      for (const std::string& message : messages) CHECK(message == "");
    }
  }
}

TEST_CASE(
    "Rendezvous and open_group_pair: the start of a job takes at most about 16 rounds of "
    "messages") {
  const ReservedPort port;
  test::RoundNetwork rounds({"127.0.0.1", port.number()});
  std::array<int, 3> ends{};
  const auto messages = on_ranks(kRanks, [&](int rank) {
    RendezvousOptions options = kPatient;
    options.shared_memory = false;
    options.network = rounds.network(rank);
    const auto here =
        std::make_shared<Rendezvous>(make_identity(rank, kRanks, port.number()), options);
    if (rank == 2) ends[0] = rounds.rounds();
    here->agree({{"config", "a"}, {"device", "b"}});
    if (rank == 2) ends[1] = rounds.rounds();
    const GroupPair groups = open_group_pair(here, Algorithm::kRing);
    if (rank == 2) ends[2] = rounds.rounds();
    groups.first->barrier();
  });
  for (const std::string& message : messages) CHECK(message == "");
  // A thread that waits for a busy processor sends in a later round.
  constexpr int kRoundsOfSlowThreads = 2;
  // Connect (3), challenge, greeting, welcome.
  CHECK(ends[0] <= 6 + kRoundsOfSlowThreads);
  // The values to rank 0, and its answer.
  CHECK(ends[1] - ends[0] <= 2 + kRoundsOfSlowThreads);
  // Addresses to rank 0 and back, connect (3), challenge, greeting, answer.
  CHECK(ends[2] - ends[1] <= 8 + kRoundsOfSlowThreads);
}

}  // namespace trainer::cluster::rounds_test
