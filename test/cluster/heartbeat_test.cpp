// Heartbeats that are lost or late on a link to rank 0, and what the ranks report.
#include <doctest/doctest.h>

#include <array>

#include "cluster/collective/peer_communicator.h"
#include "ranks.h"
#include "relay.h"
#include "support/process_events.h"

namespace trainer::cluster::heartbeat_test {
namespace {

using std::chrono::milliseconds;

// Joins a job of three ranks whose link between ranks 0 and 2 is relayed.
std::shared_ptr<Rendezvous> join(RelayedLink& link, int rank, int port, milliseconds timeout) {
  RendezvousOptions options = kPatient;
  options.timeout = timeout;
  options.shared_memory = false;
  options.network = link.network(rank);
  return std::make_shared<Rendezvous>(make_identity(rank, 3, port), options);
}

}  // namespace

TEST_CASE("Rendezvous: no rank counts as gone when heartbeats are lost while data moves") {
  constexpr milliseconds kTimeout{4000};
  for (const int root : {0, 2}) {
    CAPTURE(root);
    const ReservedPort port;
    RelayedLink link(100'000, 0, 2);
    Relay& heartbeats = link.add({"127.0.0.1", port.number()});
    milliseconds time{};
    const auto messages = on_ranks(3, [&](int rank) {
      const auto here = join(link, rank, port.number(), kTimeout);
      const auto group = open_group(here, Algorithm::kRing);
      group->barrier();
      if (rank == root) heartbeats.stall();
      const auto start = Clock::now();
      // Most of it lies in the buffers of the kernel of one end until the relay takes it.
      std::vector<std::byte> bytes(600'000, std::byte(rank));
      group->broadcast(bytes, root);
      group->barrier();
      if (rank == root) {
        time = std::chrono::duration_cast<milliseconds>(Clock::now() - start);
        heartbeats.resume();
      }
      group->barrier();
      if (bytes != std::vector<std::byte>(bytes.size(), std::byte(root))) {
        throw CheckError("wrong bytes");
      }
    });
    for (const std::string& message : messages) CHECK(message == "");
    CHECK(time > kTimeout);  // else the relay was not slow
  }
}

TEST_CASE("Rendezvous counts data of a call between two ranks as progress of every rank") {
  const ReservedPort port;
  RelayedLink link(100'000, 0, 2);
  link.add({"127.0.0.1", port.number()});
  std::array<std::uint64_t, 3> advances{};
  const auto messages = on_ranks(3, [&](int rank) {
    const auto here = join(link, rank, port.number(), milliseconds(4000));
    const auto group = open_group(here, Algorithm::kRing);
    group->barrier();
    const std::uint64_t before = here->progress().count();
    std::vector<std::byte> bytes(400'000);
    group->broadcast(bytes, 2);
    group->barrier();
    advances[static_cast<std::size_t>(rank)] = here->progress().count() - before;
  });
  for (const std::string& message : messages) CHECK(message == "");
  // The two calls advance by 4, and the heartbeats of some seconds by more.
  for (const std::uint64_t count : advances) CHECK(count >= 8);
}

TEST_CASE("Communicator opens an activity while it waits for another rank") {
  const ReservedPort port;
  const Progress first;
  const auto messages = on_ranks(2, [&](int rank) {
    RendezvousOptions options = kPatient;
    if (rank == 0) options.progress = first;
    const auto here = std::make_shared<Rendezvous>(make_identity(rank, 2, port.number()), options);
    const auto group = open_group(here, Algorithm::kRing);
    group->barrier();
    float value = 1;
    if (rank == 1 && !test::poll_until([&] { return first.is_open(Activity::kSum); })) {
      throw CheckError("rank 0 does not wait in a sum");
    }
    group->all_reduce(std::span(&value, 1));
    if (rank == 1 && !test::poll_until([&] { return first.is_open(Activity::kBarrier); })) {
      throw CheckError("rank 0 does not wait at a barrier");
    }
    group->barrier();
  });
  for (const std::string& message : messages) CHECK(message == "");
  CHECK_FALSE(first.is_open(Activity::kSum));
  CHECK_FALSE(first.is_open(Activity::kBarrier));
}

TEST_CASE("Rendezvous: every rank names both ends of a link to rank 0 that loses all data") {
  const ReservedPort port;
  RelayedLink link(100'000'000, 0, 2);
  link.add({"127.0.0.1", port.number()});
  void (RelayedLink::*change)() = nullptr;
  std::string cause;
  SUBCASE("lost data") {
    change = &RelayedLink::stall;
    cause = "has been silent for";
  }
  SUBCASE("closed connections") {
    change = &RelayedLink::cut;
    cause = "closed";
  }
  const auto messages = on_ranks(3, [&](int rank) {
    const auto here = join(link, rank, port.number(), milliseconds(4000));
    const auto group = open_group(here, Algorithm::kRing);
    std::vector<float> values(10'000);
    for (int step = 0;; ++step) {
      group->all_reduce(std::span<float>(values));
      if (step == 0 && rank == 0) (link.*change)();
    }
  });
  for (std::size_t rank = 0; rank < messages.size(); ++rank) {
    CAPTURE(rank);
    INFO(messages[rank]);
    CHECK(contains(messages[rank], "rank 0 (on "));
    CHECK(contains(messages[rank], "rank 2 (on "));
    CHECK_FALSE(contains(messages[rank], "rank 1 (on "));
    CHECK(contains(messages[rank], cause));
  }
}

}  // namespace trainer::cluster::heartbeat_test
