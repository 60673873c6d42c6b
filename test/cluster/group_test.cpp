// Sums between real processes.
#include <doctest/doctest.h>

#include "cluster/processes.h"
#include "cluster/transport/socket.h"

namespace trainer::cluster {
namespace {

void expect_done(Processes& ranks) {
  for (auto& rank : ranks) {
    const int code = rank->wait();
    INFO(rank->err());
    CHECK(code == 0);
    CHECK(rank->out().find("done") != std::string::npos);
  }
}

}  // namespace

TEST_CASE("Communicator: every call on two groups at once returns the expected values") {
  for (const int size : {2, 3, 4}) {
    for (const char* algorithm : {"ring", "tree"}) {
      CAPTURE(size);
      CAPTURE(std::string(algorithm));
      const ReservedPort port;
      Processes ranks = start_ranks(size, port.number(), {"--algorithm", algorithm});
      expect_done(ranks);
    }
  }
}

TEST_CASE("Communicator sums over sockets between ranks of one host without shared memory") {
  for (const int without : {1, 4}) {
    CAPTURE(without);
    const ReservedPort port;
    Processes ranks;
    for (int rank = 0; rank < 4; ++rank) {
      ranks.push_back(
          start_rank(rank, 4, port.number(),
                     {"--algorithm", "tree", "--shared-memory", rank < without ? "0" : "1"}));
    }
    expect_done(ranks);
  }
}

TEST_CASE("Communicator adds in the order of a tree over any number of ranks") {
  for (const int size : {2, 3, 4, 5, 8}) {
    for (const char* shared_memory : {"1", "0"}) {
      CAPTURE(size);
      CAPTURE(std::string(shared_memory));
      const ReservedPort port;
      Processes ranks =
          start_ranks(size, port.number(),
                      {"--algorithm", "tree", "--mode", "bits", "--shared-memory", shared_memory});
      expect_done(ranks);
    }
  }
}

TEST_CASE("all_reduce_tree equals the tree bit by bit for any number of processes") {
  for (const int size : {2, 3, 4, 5}) {
    CAPTURE(size);
    const ReservedPort port;
    Processes ranks = start_ranks(size, port.number(), {"--mode", "tree"});
    expect_done(ranks);
  }
}

}  // namespace trainer::cluster
