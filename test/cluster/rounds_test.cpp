// How many messages follow each other in the calls of ranks. Ranks that are far apart wait for the
// latency of each.
#include <doctest/doctest.h>
#include <gloo/allreduce.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <mutex>

#include "base/numbers/random.h"
#include "cluster/collective/direct.h"
#include "cluster/collective/gloo_communicator.h"
#include "cluster/collective/gloo_context.h"
#include "cluster/transport/transport.h"
#include "ranks.h"
#include "support/round_network.h"

namespace trainer::cluster::rounds_test {
namespace {

const auto kRing =
    std::make_shared<const AlgorithmTable>(AlgorithmTable{{~std::size_t{0}, Algorithm::kRing}});
constexpr int kRanks = 3;

// Returns numbers whose sum depends on the order.
std::vector<float> draw_values(int rank, std::size_t count) {
  std::vector<float> values;
  for (std::size_t i = 0; i < count; ++i) {
    values.push_back(Random(7, Stream::kSynthetic, static_cast<std::uint64_t>(rank), i).normal());
  }
  return values;
}

void add_floats(void* sum, const void* a, const void* b, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    static_cast<float*>(sum)[i] = static_cast<const float*>(a)[i] + static_cast<const float*>(b)[i];
  }
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

TEST_CASE("Communicator: every call of few bytes takes one message after the other ranks' data") {
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
  });
  for (std::size_t call = 0; call < 4; ++call) {
    CAPTURE(call);
    CHECK(rounds[call] == 1);
  }
  // A part of the values of every rank, and its sum.
  CHECK(rounds[4] == 2);
  CHECK(rounds[5] == 2);
}

TEST_CASE("direct_ring equals Gloo's ring bit by bit for any number of ranks and values") {
  for (const int size : {2, 3, 4, 5, 7}) {
    CAPTURE(size);
    const ReservedPort port;
    const auto messages = on_ranks(size, [&](int rank) {
      Rendezvous here(make_identity(rank, size, port.number()), kPatient);
      Transport transport(here, "test");
      const auto context = make_gloo_context(transport);
      std::vector<float> scratch;
      for (const std::size_t count : {1, 2, 3, 9, 10, 11, 1000, 1031, 60'003, 1 << 20}) {
        std::vector<float> values = draw_values(rank, count), expected = values;
        transport.begin_call();
        direct_ring(transport, std::span(values), scratch);
        gloo::AllreduceOptions options(context);
        options.setOutput(expected.data(), expected.size());
        options.setReduceFunction(add_floats);
        options.setAlgorithm(gloo::AllreduceOptions::Algorithm::RING);
        gloo::allreduce(options);
        if (std::memcmp(values.data(), expected.data(), count * sizeof(float)) != 0) {
          throw CheckError(concat("other bits of ", count, " values"));
        }
      }
      here.agree("end", "");
    });
    for (const std::string& message : messages) CHECK(message == "");
  }
}

TEST_CASE(
    "Rendezvous and open_gloo_pair: the start of a job takes at most about 16 rounds of messages") {
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
    const GroupPair groups = open_gloo_pair(here, kRing);
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
