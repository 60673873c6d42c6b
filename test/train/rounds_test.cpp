// How many messages follow each other until the first step of three ranks, and in each step. Ranks
// that are far apart wait for the latency of each.
#include <doctest/doctest.h>

#include <array>
#include <map>
#include <thread>

#include "cluster/transport/socket.h"
#include "support.h"
#include "support/round_network.h"
#include "train/process_group.h"

namespace trainer::train::rounds_test {
namespace {

using namespace support;

constexpr int kRanks = 3;

// Trains on three ranks. Returns the rounds until the end of each step, as rank 0 counts them.
std::map<std::int64_t, int> count_rounds() {
  config::Config config = run_config();
  config.train.batch_size = 2;
  config.train.epochs = 4;  // of 4 steps
  config.parallel.lr_scaling = config::Parallel::LrScaling::kNone;
  config.parallel.collective = config::Collective::kRing;
  const cluster::ReservedPort port;
  trainer::test::RoundNetwork network({"127.0.0.1", port.number()});
  std::map<std::int64_t, int> rounds;
  std::array<std::string, kRanks> errors;
  const auto run = [&](int rank) {
    Trial trial(config);
    trial.at_step = [&](std::int64_t step) {
      rounds[step] = network.rounds();
      return Request::kContinue;
    };
    cluster::Identity who;
    who.rank = who.index = rank;
    who.size = kRanks;
    who.role = rank == 0 ? cluster::Role::kChief : cluster::Role::kWorker;
    who.master = {"127.0.0.1", port.number()};
    who.source = "--rank";
    cluster::RendezvousOptions options;
    options.shared_memory = false;
    options.version = "1";
    options.network = network.network(rank);
    try {
      ProcessGroup group(std::make_shared<cluster::Rendezvous>(who, options), config, {},
                         [](const std::string&) {});
      trial.run(group);
    } catch (const Error& error) {
      errors[static_cast<std::size_t>(rank)] = error.what();
    }
  };
  std::thread others[] = {std::thread(run, 1), std::thread(run, 2)};
  run(0);
  for (std::thread& other : others) other.join();
  for (const std::string& error : errors) CHECK(error == "");
  return rounds;
}

}  // namespace

TEST_CASE(
    "train: three ranks take a bounded number of message rounds for the start and each step") {
  std::map<std::int64_t, int> rounds = count_rounds();
  REQUIRE(rounds.size() == 16);
  MESSAGE("rounds until the end of step 1: ", rounds[1]);
  MESSAGE("rounds of steps 3 to 15: ", rounds[15] - rounds[2]);
  // A start: 6 to join, 2 to agree on the config, 8 to connect, 3 for
  // the variables of rank 0 and the first checkpoint, 1 for the first batch. A step: 2 for the sum
  // of gradients, 1 to agree on what follows. A thread that waits for a busy processor adds rounds.
  CHECK(rounds[1] <= 23 + 10);
  CHECK(rounds[15] - rounds[2] <= 13 * 3 + 10);
}

}  // namespace trainer::train::rounds_test
