// Slow and broken connections between ranks: which of them end a call, and what all ranks report.
#include <doctest/doctest.h>

#include "cluster/collective/peer_communicator.h"
#include "ranks.h"
#include "relay.h"

namespace trainer::cluster::link_test {
namespace {

using std::chrono::milliseconds;

RendezvousOptions make_options(RelayedLink& link, int rank, milliseconds timeout) {
  RendezvousOptions options = kPatient;
  options.timeout = timeout;
  options.shared_memory = false;
  options.network = link.network(rank);
  return options;
}

// Runs sums of three ranks until one fails, and returns the messages of the ranks. Rank 0 changes
// the relay between ranks 1 and 2 after the first sum.
std::vector<std::string> messages_after(void (RelayedLink::*change)(), milliseconds timeout) {
  const ReservedPort port;
  RelayedLink link(100'000'000);
  return on_ranks(3, [&](int rank) {
    const auto here = std::make_shared<Rendezvous>(make_identity(rank, 3, port.number()),
                                                   make_options(link, rank, timeout));
    const auto group = open_group(here, Algorithm::kRing);
    std::vector<float> values(10'000);
    for (int step = 0;; ++step) {
      group->all_reduce(std::span<float>(values));
      if (step == 0 && rank == 0) (link.*change)();
    }
  });
}

// Expects that every rank names ranks 1 and 2, and not rank 0, as the ends of the connection.
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

// A network in which packets to all ports but one are lost.
class LostPackets final : public Network {
 public:
  explicit LostPackets(int reached) : reached_(reached) {}
  Socket connect_to(const Address& address, Clock::time_point deadline,
                    std::string& reason) const override {
    if (address.port == reached_) return Network::connect_to(address, deadline, reason);
    sleep(std::chrono::ceil<milliseconds>(deadline - now()));
    reason = "Connection timed out";
    return {};
  }

 private:
  int reached_;
};

}  // namespace

TEST_CASE("Rendezvous: all others wait for a rank that prepares for longer than the time-out") {
  const ReservedPort port;
  const auto run_ranks = [&](bool is_announced) {
    return on_ranks(3, [&](int rank) {
      RendezvousOptions options = kPatient;
      options.timeout = milliseconds(2000);
      Rendezvous here(make_identity(rank, 3, port.number()), options);
      here.set_preparing(is_announced && rank == 2);
      // The pause stands for slow storage. It must exceed the time-out.
      if (rank == 2) here.network().sleep(milliseconds(5000));
      here.set_preparing(false);
      here.agree({{"config", "a"}, {"device", "b"}});
    });
  };
  for (const std::string& message : run_ranks(true)) CHECK(message == "");
  // Ranks 0 and 1 have the same time-out: one of them reports it, the other one receives the error.
  const std::vector<std::string> messages = run_ranks(false);
  CAPTURE(messages[0]);
  CAPTURE(messages[1]);
  CHECK(messages[0] != "");
  CHECK(messages[1] != "");
  CHECK(contains(concat(messages[0], messages[1]),
                 "not all ranks came within 2 s, the limit of parallel.timeout"));
}

TEST_CASE("Rendezvous: the first key that differs of several values is named") {
  const ReservedPort port;
  const auto messages = on_ranks(2, [&](int rank) {
    Rendezvous here(make_identity(rank, 2, port.number()), kPatient);
    here.agree({{"config", "a"}, {"device", "b"}});
    here.agree({{"config", "a"}, {"device", rank == 0 ? "CPU" : "GPUs"}});
  });
  for (const std::string& message : messages) {
    CHECK(contains(message, "differs from rank 0 in its device: 'GPUs', not 'CPU'"));
  }
}

TEST_CASE("Communicator: a transfer that takes longer than the time-out completes while it moves") {
  const ReservedPort port;
  constexpr milliseconds kTimeout{3000};
  RelayedLink link(200'000);
  const auto start = Clock::now();
  const auto messages = on_ranks(3, [&](int rank) {
    const auto here = std::make_shared<Rendezvous>(make_identity(rank, 3, port.number()),
                                                   make_options(link, rank, kTimeout));
    const auto group = open_group(here, Algorithm::kRing);
    // Rank 2 receives two of three parts from rank 1, which takes at least 8 s.
    std::vector<std::byte> bytes(2'400'000, std::byte(rank));
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
    "Communicator: a connection that loses all data is reported with both ranks and the key") {
  const auto messages = messages_after(&RelayedLink::stall, milliseconds(4000));
  expect_pair(messages);
  for (const std::string& message : messages) CHECK(contains(message, "parallel.timeout"));
}

TEST_CASE(
    "open_group_pair: both ranks of a connection that loses all data from the start are named") {
  const ReservedPort port;
  RelayedLink link(100'000'000);
  link.stall();
  const auto messages = on_ranks(3, [&](int rank) {
    const auto here = std::make_shared<Rendezvous>(make_identity(rank, 3, port.number()),
                                                   make_options(link, rank, milliseconds(2000)));
    // Rank 0 is connected to both other ranks, and waits for them below.
    const GroupPair groups = open_group_pair(here, Algorithm::kRing);
    here->agree("data", "a");
  });
  for (std::size_t rank = 0; rank < messages.size(); ++rank) {
    CAPTURE(rank);
    INFO(messages[rank]);
    CHECK(contains(messages[rank], "rank 1"));
    CHECK(contains(messages[rank], "rank 2"));
    CHECK(contains(messages[rank], "parallel.timeout"));
  }
}

// Rank 0 would wait longer, so that the message is that of rank 1, whose call gets no answer.
TEST_CASE("open_group: the message of a call that gets no answer names both ranks and the key") {
  const ReservedPort port;
  const auto messages = on_ranks(2, [&](int rank) {
    RendezvousOptions options = kPatient;
    options.shared_memory = false;
    options.timeout = milliseconds(rank == 0 ? 4000 : 3000);
    if (rank == 1) options.network = std::make_shared<LostPackets>(port.number());
    open_group(std::make_shared<Rendezvous>(make_identity(rank, 2, port.number()), options),
               Algorithm::kRing);
  });
  for (const std::string& message : messages) {
    INFO(message);
    CHECK(contains(message, "no connection between rank 1 and rank 0 at 127.0.0.1:"));
    CHECK(contains(message,
                   " within 3 s, the limit of parallel.timeout: Connection timed out; noticed by"));
  }
}

TEST_CASE("Communicator: a connection that closes between two ranks is reported with both ranks") {
  const auto messages = messages_after(&RelayedLink::cut, milliseconds(30'000));
  expect_pair(messages);
}

TEST_CASE("Rendezvous: a silent process at the port of rank 0 ends the ranks at the time-out") {
  int number = 0;
  const Socket silent = listen_on("127.0.0.1", number);
  RendezvousOptions options = kPatient;
  options.timeout = milliseconds(1000);
  const auto start = Clock::now();
  std::string message;
  try {
    Rendezvous here(make_identity(1, 2, number), options);
  } catch (const PeerError& error) {
    message = error.what();
  }
  CHECK(contains(message, "cannot be reached at 127.0.0.1:"));
  CHECK(contains(message, "for 1 s, the limit of parallel.timeout: it does not answer"));
  CHECK(Clock::now() - start < kPatient.timeout);
}

}  // namespace trainer::cluster::link_test
