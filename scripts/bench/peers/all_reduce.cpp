// One rank of the all-reduce benchmark of this project's sums.
//
//   all_reduce ALGORITHMS SECONDS BYTES...    ALGORITHMS: tree, ring, or both with a comma between
//
// Who it is comes from RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT. The ranks share no memory if TCP
// is set. The algorithms take turns, so that a change of the machine's load meets all alike. Rank 0
// prints {"event": "measured", "algorithm": ..., "bytes": ..., "seconds": ..., "least": ...}, the
// median and the least time of a call, a line per size and algorithm.
#include <algorithm>
#include <iostream>
#include <sstream>

#include "base/error.h"
#include "base/spelling.h"
#include "cluster/collective/peer_communicator.h"

namespace trainer::cluster {
namespace {

using Clock = std::chrono::steady_clock;

struct Competitor {
  Algorithm algorithm;
  std::unique_ptr<Communicator> group;
  std::vector<double> times;
};

void measure(Communicator& group, std::vector<Competitor>& competitors, std::size_t bytes,
             double limit) {
  std::vector<float> values(std::max<std::size_t>(bytes / sizeof(float), 1), 1.0f);
  for (Competitor& each : competitors) {
    each.times.clear();
    each.group->all_reduce(std::span<float>(values));
  }
  const auto end = Clock::now() + std::chrono::duration<double>(limit);
  for (std::int64_t more = 1; more > 0;) {
    for (Competitor& each : competitors) {
      group.barrier();
      const auto start = Clock::now();
      each.group->all_reduce(std::span<float>(values));
      each.times.push_back(std::chrono::duration<double>(Clock::now() - start).count());
    }
    std::ranges::fill(values, 1.0f);
    more = group.rank() == 0 && (Clock::now() < end || competitors[0].times.size() < 5) ? 1 : 0;
    group.all_reduce(std::span<std::int64_t>(&more, 1));
  }
}

void run(int argc, char** argv) {
  config::Environment environment;
  for (const char* name : {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}) {
    if (const char* value = std::getenv(name)) environment[name] = value;
  }
  RendezvousOptions options;
  options.shared_memory = std::getenv("TCP") == nullptr;
  const auto rendezvous = std::make_shared<Rendezvous>(identify({}, environment), options);
  const auto group = open_group(rendezvous, Algorithm::kTree);
  std::vector<Competitor> competitors;
  std::istringstream names(argv[1]);
  for (std::string name; std::getline(names, name, ',');) {
    const auto algorithm = parse_enum<Algorithm>(name);
    if (!algorithm) throw ConfigError({}, "unknown algorithm " + name);
    competitors.push_back({*algorithm, open_group(rendezvous, *algorithm), {}});
  }
  for (int i = 3; i < argc; ++i) {
    const std::size_t bytes = std::stoul(argv[i]);
    measure(*group, competitors, bytes, std::stod(argv[2]));
    for (Competitor& each : competitors) {
      std::ranges::sort(each.times);
      if (rendezvous->rank() != 0) continue;
      std::cout << R"({"event": "measured", "algorithm": ")" << spell(each.algorithm)
                << R"(", "bytes": )" << bytes << R"(, "seconds": )"
                << each.times[each.times.size() / 2] << R"(, "least": )" << each.times[0] << "}"
                << std::endl;
    }
  }
  group->barrier();
}

}  // namespace
}  // namespace trainer::cluster

int main(int argc, char** argv) {
  try {
    trainer::cluster::run(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << error.what() << std::endl;
    return 1;
  }
  return 0;
}
