// Sums between real processes.
#include <doctest/doctest.h>

#include <algorithm>

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
    for (const char* algorithm : {"ring", "bcube", "halving_doubling"}) {
      if (size == 3 && std::string(algorithm) == "halving_doubling") continue;
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
      ranks.push_back(start_rank(
          rank, 4, port.number(),
          {"--algorithm", "halving_doubling", "--shared-memory", rank < without ? "0" : "1"}));
    }
    expect_done(ranks);
  }
}

TEST_CASE("Communicator: any algorithm gives the same bits on all ranks") {
  const std::vector<std::vector<std::string>> methods{
      {"--algorithm", "ring"},
      {"--algorithm", "bcube"},
      {"--algorithm", "halving_doubling"},
      {"--algorithm", "halving_doubling", "--shared-memory", "0"}};
  for (const int size : {2, 4, 8}) {
    for (std::vector<std::string> arguments : methods) {
      CAPTURE(size);
      CAPTURE(arguments.at(1));
      arguments.insert(arguments.end(), {"--mode", "bits"});
      const ReservedPort port;
      Processes ranks = start_ranks(size, port.number(), arguments);
      expect_done(ranks);
      const auto checksum = [](const Process& rank) {
        const std::string out = rank.out();
        return out.substr(out.find("checksum"));
      };
      for (const auto& rank : ranks) CHECK(checksum(*rank) == checksum(*ranks[0]));
    }
  }
}

TEST_CASE("all_reduce_tree equals the tree bit by bit for any number of processes and algorithm") {
  for (const int size : {2, 3, 4, 5}) {
    for (const char* algorithm : {"ring", "halving_doubling"}) {
      if (size % 2 == 1 && std::string(algorithm) == "halving_doubling") continue;
      CAPTURE(size);
      CAPTURE(std::string(algorithm));
      const ReservedPort port;
      Processes ranks =
          start_ranks(size, port.number(), {"--algorithm", algorithm, "--mode", "tree"});
      expect_done(ranks);
    }
  }
}

TEST_CASE("open_gloo: halving_doubling over three ranks is an internal error") {
  const ReservedPort port;
  Processes ranks =
      start_ranks(3, port.number(), {"--algorithm", "halving_doubling", "--timeout", "2000"});
  for (auto& rank : ranks) CHECK(rank->wait() != 0);
  // A rank may receive the failure of the first rank before it finds the reason itself.
  CHECK(std::any_of(ranks.begin(), ranks.end(), [](const auto& rank) {
    return rank->err().find("3 ranks, which are not a power of two") != std::string::npos;
  }));
}

TEST_CASE("measure returns the same table on both of two ranks") {
  const ReservedPort port;
  Processes ranks = start_ranks(2, port.number(), {"--mode", "measure"});
  expect_done(ranks);
  const auto table = [](const Process& rank) {
    const std::string out = rank.out();
    return out.substr(out.find("all_reduce of KiB"));
  };
  CHECK(table(*ranks[0]) == table(*ranks[1]));
  CHECK(table(*ranks[0]).find('*') != std::string::npos);
}

}  // namespace trainer::cluster
