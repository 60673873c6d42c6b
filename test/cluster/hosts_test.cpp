// Two network namespaces joined by a cable stand for two hosts.
#include <doctest/doctest.h>

#include <cstdlib>

#include "cluster/processes.h"
#include "support/skip.h"

namespace trainer::cluster {
namespace {

bool run(const std::string& command) {
  return std::system((command + " 2> /dev/null").c_str()) == 0;
}

// A network of its own, which lives as long as this does.
class Host {
 public:
  // The process does nothing but keep the network; the destructor of Process kills it.
  Host() : holder_({"unshare", "--net", "sh", "-c", "echo ready; exec sleep 600"}) {}
  bool ready() { return holder_.prints("ready"); }
  std::string pid() const { return std::to_string(holder_.pid()); }
  std::vector<std::string> inside(std::vector<std::string> command) const {
    std::vector<std::string> words{"nsenter", "--target", pid(), "--net", "--"};
    words.insert(words.end(), command.begin(), command.end());
    return words;
  }
  bool ip(const std::string& command) const {
    return run("nsenter --target " + pid() + " --net -- ip " + command);
  }

 private:
  Process holder_;
};

bool join(const Host& a, const Host& b) {
  return run("ip link add c0 netns " + a.pid() + " type veth peer name c0 netns " + b.pid()) &&
         a.ip("address add 10.77.0.1/24 dev c0") && b.ip("address add 10.77.0.2/24 dev c0") &&
         a.ip("link set lo up") && b.ip("link set lo up") && a.ip("link set c0 up") &&
         b.ip("link set c0 up");
}

std::unique_ptr<Process> start(const Host& host, int rank, const std::string& master,
                               std::vector<std::string> more) {
  std::vector<std::string> command{
      CLUSTER_RANK, "--rank", std::to_string(rank), "--world-size", "3", "--master", master};
  command.insert(command.end(), more.begin(), more.end());
  return std::make_unique<Process>(host.inside(std::move(command)));
}

}  // namespace

TEST_CASE("Rendezvous: both of two hosts notice a cable that is pulled") {
  if (!have("unshare") || !have("nsenter") || !have("ip")) {
    TRAINER_SKIP_MISSING("unshare, nsenter or ip");
  }
  Host a, b;
  if (!a.ready() || !b.ready() || !join(a, b)) {
    TRAINER_SKIP("this kernel or user may not make network namespaces");
  }
  const std::vector<std::string> loop{"--mode", "loop", "--timeout", "8000"};
  Processes ranks;
  // Rank 1 shares rank 0's host; it too must be reached from the other one.
  ranks.push_back(start(a, 0, "10.77.0.1:4000", loop));
  ranks.push_back(start(a, 1, "10.77.0.1:4000", loop));
  ranks.push_back(start(b, 2, "10.77.0.1:4000", loop));
  for (const auto& rank : ranks) REQUIRE(rank->prints("step 3"));
  CHECK(ranks[0]->out().find("at 10.77.0.1 local 0") != std::string::npos);
  CHECK(ranks[1]->out().find("at 10.77.0.1") != std::string::npos);
  CHECK(ranks[2]->out().find("at 10.77.0.2") != std::string::npos);
  REQUIRE(b.ip("link set c0 down"));
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    CHECK(ranks[i]->wait() == 4);
    const std::string err = ranks[i]->err();
    INFO(err);
    CHECK(err.find(i == 2 ? "rank 0 (on " : "rank 2 (on ") != std::string::npos);
    CHECK(err.find("or the network between their hosts has failed") != std::string::npos);
  }
}

}  // namespace trainer::cluster
