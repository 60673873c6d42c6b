// Slow and broken connections between ranks: which of them end a call, and what all ranks report.
#include <doctest/doctest.h>

#include <future>

#include "cluster/collective/gloo_communicator.h"
#include "ranks.h"
#include "relay.h"

namespace trainer::cluster::link_test {
namespace {

using std::chrono::milliseconds;

const AlgorithmTable kRing{{~std::size_t{0}, Algorithm::kRing}};

RendezvousOptions make_options(RelayedLink& link, int rank, milliseconds timeout) {
  RendezvousOptions options = kPatient;
  options.timeout = timeout;
  options.shared_memory = false;
  options.network = link.network(rank);
  return options;
}

// Runs sums of three ranks until the relay between the ranks 1 and 2 is changed after the first
// one, and returns the messages of the ranks.
std::vector<std::string> messages_after(void (RelayedLink::*change)(), milliseconds timeout) {
  const ReservedPort port;
  RelayedLink link(100'000'000);
  std::promise<void> first;
  std::thread changer([&] {
    first.get_future().wait();
    (link.*change)();
  });
  const auto messages = on_ranks(3, [&](int rank) {
    const auto here = std::make_shared<Rendezvous>(identity_of(rank, 3, port.number()),
                                                   make_options(link, rank, timeout));
    const auto group = open_gloo(here, kRing);
    std::vector<float> values(10'000);
    for (int step = 0;; ++step) {
      group->all_reduce(std::span<float>(values));
      if (step == 0 && rank == 0) first.set_value();
    }
  });
  changer.join();
  return messages;
}

void expect_pair(const std::vector<std::string>& messages) {
  for (std::size_t rank = 0; rank < messages.size(); ++rank) {
    CAPTURE(rank);
    INFO(messages[rank]);
    CHECK(contains(messages[rank], "rank 1 (on "));
    CHECK(contains(messages[rank], "rank 2 (on "));
    CHECK_FALSE(contains(messages[rank], "rank 0 (on "));
    CHECK(contains(messages[rank], concat("noticed by rank ", rank, " in all_reduce")));
  }
}

}  // namespace

TEST_CASE(
    "Communicator: a transfer that takes longer than the time-out, completes while it moves") {
  const ReservedPort port;
  constexpr milliseconds kTimeout{3000};
  RelayedLink link(200'000);
  const auto start = Clock::now();
  const auto messages = on_ranks(3, [&](int rank) {
    const auto here = std::make_shared<Rendezvous>(identity_of(rank, 3, port.number()),
                                                   make_options(link, rank, kTimeout));
    const auto group = open_gloo(here, kRing);
    std::vector<std::byte> bytes(1'600'000, std::byte(rank));
    group->broadcast(bytes, 1);
    // Rank 0 has its data at once and waits here for rank 2, which receives slowly.
    group->barrier();
    if (bytes != std::vector<std::byte>(bytes.size(), std::byte(1)))
      throw CheckError("wrong bytes");
  });
  for (const std::string& message : messages) CHECK(message == "");
  CHECK(Clock::now() - start > 2 * kTimeout);  // else the relay was not slow
}

TEST_CASE(
    "Communicator: a connection that loses all data, is reported with both ranks and the key") {
  const auto messages = messages_after(&RelayedLink::stall, milliseconds(4000));
  expect_pair(messages);
  for (const std::string& message : messages) CHECK(contains(message, "parallel.timeout"));
}

TEST_CASE("Communicator: a connection that closes between two ranks, is reported with both ranks") {
  const auto messages = messages_after(&RelayedLink::cut, milliseconds(30'000));
  expect_pair(messages);
}

TEST_CASE("Rendezvous: a silent process at the port of rank 0, ends the ranks at the time-out") {
  int number = 0;
  const Socket silent = listen_on("127.0.0.1", number);
  RendezvousOptions options = kPatient;
  options.timeout = milliseconds(1000);
  const auto start = Clock::now();
  std::string message;
  try {
    Rendezvous here(identity_of(1, 2, number), options);
  } catch (const PeerError& error) {
    message = error.what();
  }
  CHECK(contains(message, "cannot be reached at 127.0.0.1:"));
  CHECK(contains(message, "for 1 s: it does not answer"));
  CHECK(Clock::now() - start < milliseconds(4000));
}

}  // namespace trainer::cluster::link_test
