// What the others do when a rank dies, stops, hangs, fails or comes too late.
#include <doctest/doctest.h>
#include <signal.h>

#include <array>
#include <chrono>
#include <random>
#include <thread>

#include "cluster/processes.h"
#include "cluster/transport/socket.h"

namespace trainer::cluster {
namespace {

const std::vector<std::string> kLoop{"--mode", "loop"};

// How sums travel, and a number of ranks that can do so.
struct Way {
  int size;
  const char *algorithm, *shared_memory;
};
constexpr Way kWays[]{{3, "ring", "1"}, {2, "tree", "1"}, {4, "tree", "0"}};

std::vector<std::string> loop(std::initializer_list<const char*> more) {
  std::vector<std::string> arguments = kLoop;
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

bool names(const std::string& text, int rank, const Process& process) {
  return text.find("rank " + std::to_string(rank) + " (on ") != std::string::npos &&
         text.find("process " + std::to_string(process.pid()) + ")") != std::string::npos;
}

// All but the victim end with code 4 and name it.
void expect_named(Processes& ranks, std::size_t victim, const std::string& what) {
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (i == victim) continue;
    const int code = ranks[i]->wait();
    const std::string err = ranks[i]->err();
    CAPTURE(i);
    INFO(err);
    CHECK(code == 4);
    CHECK(names(err, static_cast<int>(victim), *ranks[victim]));
    CHECK(err.find(what) != std::string::npos);
    CHECK(err.find("while training, step ") != std::string::npos);
  }
}

}  // namespace

TEST_CASE("Rendezvous: all others name a rank killed at a random moment") {
  std::random_device device;
  const unsigned seed = device();
  CAPTURE(seed);
  std::mt19937 draw(seed);
  constexpr Way ways[]{{3, "ring", "1"}, {4, "tree", "1"}, {2, "tree", "1"}, {4, "ring", "1"},
                       {3, "tree", "1"}, {3, "ring", "0"}, {2, "tree", "0"}, {4, "tree", "0"}};
  for (std::size_t round = 0; round < std::size(ways); ++round) {
    const Way& way = ways[round];
    const std::size_t victim = round < 3 ? 0 : draw() % static_cast<std::size_t>(way.size);
    CAPTURE(round);
    CAPTURE(victim);
    const ReservedPort port;
    Processes ranks = start_ranks(way.size, port.number(),
                                  loop({"--algorithm", way.algorithm, "--shared-memory",
                                        way.shared_memory, "--count", "1500000"}));
    REQUIRE(ranks[victim]->prints("step 1"));
    // A kill at a moment that no event marks is what is tested.
    std::this_thread::sleep_for(std::chrono::microseconds(draw() % 30'000));
    ranks[victim]->signal(SIGKILL);
    expect_named(ranks, victim, "was killed or has crashed");
  }
}

// The jobs run side by side, since each waits for most of its time.
TEST_CASE("Rendezvous: all others name a stopped rank within the deadline") {
  constexpr std::size_t kRounds = 4;
  std::array<ReservedPort, kRounds> ports;
  std::array<Processes, kRounds> jobs;
  for (std::size_t round = 0; round < kRounds; ++round) {
    const Way& way = kWays[round / 2];
    jobs[round] = start_ranks(way.size, ports[round].number(),
                              loop({"--timeout", "6000", "--algorithm", way.algorithm}));
  }
  for (std::size_t round = 0; round < kRounds; ++round) {
    REQUIRE(jobs[round][round % 2]->prints("step 1"));
    jobs[round][round % 2]->signal(SIGSTOP);
  }
  for (std::size_t round = 0; round < kRounds; ++round) {
    const std::size_t victim = round % 2;
    CAPTURE(round);
    expect_named(jobs[round], victim, "has been silent for");
    // When it goes on it finds that it is alone.
    jobs[round][victim]->signal(SIGCONT);
    CHECK(jobs[round][victim]->wait() == 4);
  }
}

TEST_CASE("Rendezvous: all others name a rank that makes no calls at the deadline") {
  std::array<ReservedPort, std::size(kWays)> ports;
  std::array<Processes, std::size(kWays)> jobs;
  for (std::size_t job = 0; job < jobs.size(); ++job) {
    const Way& way = kWays[job];
    jobs[job] = start_ranks(way.size, ports[job].number(),
                            loop({"--timeout", "5000", "--algorithm", way.algorithm,
                                  "--shared-memory", way.shared_memory, "--hang-at", "3", "--which",
                                  std::to_string(way.size - 1).c_str()}));
  }
  for (std::size_t job = 0; job < jobs.size(); ++job) {
    CAPTURE(kWays[job].size);
    expect_named(jobs[job], static_cast<std::size_t>(kWays[job].size - 1),
                 "is alive, but has made only");
  }
}

TEST_CASE("Rendezvous: all others report the reason of a process that fails") {
  const ReservedPort port;
  Processes ranks;
  for (int rank = 0; rank < 3; ++rank) {
    ranks.push_back(
        start_rank(rank, 3, port.number(), rank == 1 ? loop({"--fail-at", "5"}) : kLoop));
  }
  CHECK(ranks[1]->wait() == 3);
  expect_named(ranks, 1, "has failed: images/7.jpg: is damaged");
}

TEST_CASE("Rendezvous: all other ranks report the reason of a thread that fails inside a step") {
  const ReservedPort port;
  Processes ranks;
  for (int rank = 0; rank < 3; ++rank) {
    ranks.push_back(
        start_rank(rank, 3, port.number(), rank == 1 ? loop({"--abort-at", "5"}) : kLoop));
  }
  CHECK(ranks[1]->wait() == 4);
  expect_named(ranks, 1, "has failed: no memory for lane 1");
}

TEST_CASE("Rendezvous: all others name a rank that ends before them") {
  for (std::size_t round = 0; round < 4; ++round) {
    const std::size_t victim = round % 2;
    const Way& way = kWays[round / 2];
    CAPTURE(round);
    const ReservedPort port;
    Processes ranks = start_ranks(way.size, port.number(),
                                  loop({"--leave-at", "5", "--which", victim == 0 ? "0" : "1",
                                        "--algorithm", way.algorithm}));
    CHECK(ranks[victim]->wait() == 0);
    expect_named(ranks, victim, "ended before the others");
  }
}

TEST_CASE(
    "Rendezvous: a rank that starts after the deadline and the waiting rank report an error") {
  const ReservedPort port;
  Processes early;
  early.push_back(start_rank(0, 2, port.number(), {"--timeout", "500"}));
  CHECK(early[0]->wait() == 4);
  CHECK(early[0]->err().find("1 of 2 ranks did not join within 0.5 s: rank 1") !=
        std::string::npos);
  const auto late = start_rank(1, 2, port.number(), {"--timeout", "500"});
  CHECK(late->wait() == 4);
  CHECK(late->err().find("cannot be reached") != std::string::npos);
}

TEST_CASE("Rendezvous: a new process takes the place of a rank killed before all have joined") {
  const ReservedPort port;
  Processes ranks;
  auto first = start_rank(1, 3, port.number(), {});
  ranks.push_back(start_rank(0, 3, port.number(), {}));
  first->signal(SIGKILL);
  CHECK(first->wait() == -SIGKILL);
  ranks.push_back(start_rank(1, 3, port.number(), {}));
  ranks.push_back(start_rank(2, 3, port.number(), {}));
  for (auto& rank : ranks) CHECK(rank->wait() == 0);
}

}  // namespace trainer::cluster
