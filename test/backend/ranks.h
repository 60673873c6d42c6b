// The ranks of one group: an executable, a backend and a thread each, with their parts of every
// batch.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "backend/model_runs.h"
#include "base/threads/thread_team.h"
#include "cluster/local_group.h"

namespace trainer::test {

struct Step {
  std::int64_t samples;  // the samples of the global batch
  bool accumulate = false, apply = true;
};

struct Group {
  std::vector<int> lanes{1};  // one per rank
  backend::ReductionOptions reduction;
  bool sync = false;
  int guard = -1;
  bool reference = false;  // the reference backend in place of the CPU's
};

// A group without options.
Group build_group(std::vector<int> lanes);

// True if each of so many ranks has a GPU; also on the CPU, and where ranks share a GPU. Otherwise
// prints "[needs N GPUs]", which scripts/gpu_check reads.
bool has_gpus(std::size_t ranks);
// The first ranks, as many as have a GPU.
std::vector<int> fit_gpus(std::vector<int> lanes);

// A training graph for the backend under test.
graph::Graph make_graph(const Net& net, const graph::Update& update);
graph::Update plain_sgd();

using Kept = std::map<std::string, std::vector<float>>;  // parameters, statistics, slots by name

// The largest of the values' distances.
double relative(const Kept& a, const Kept& b);

class Ranks {
 public:
  Ranks(const graph::Graph& graph, const Net& net, std::int64_t max_samples, const Group& group);

  // Calls work(rank) on every rank's thread; an error of one ends the calls of all and is thrown.
  void run(const std::function<void(std::size_t)>& work);
  // All ranks on their parts of one batch; returns the losses in sample order.
  std::vector<float> step(const Step& step, const backend::Scalars& scalars, std::uint64_t seed);
  std::vector<float> step(const Step& step, const backend::Scalars& scalars,
                          const std::vector<std::vector<double>>& whole);

  Kept kept(std::size_t rank = 0) const;
  void check_equal() const;
  Runner& runner(std::size_t rank) { return *runners_[rank]; }

  std::vector<char> finite;  // by rank: was the last step finite?

 private:
  void open_backends(const Group& group);
  void make_runner(std::size_t rank, std::int64_t max_samples, const Group& group);
  backend::Collective* statistics_collective(std::size_t rank);

  graph::Graph graph_;
  Net net_;
  bool guards_;
  std::int64_t leaves_;  // 0: sums are not ordered
  ThreadTeam team_;
  std::vector<std::unique_ptr<cluster::Communicator>> communicators_, duplicates_;
  std::vector<std::unique_ptr<backend::Backend>> backends_;
  std::vector<std::unique_ptr<backend::Collective>> gradients_, statistics_;
  std::vector<std::unique_ptr<Runner>> runners_;
};

// All steps by one group, whose ranks must end with equal values: rank 0's. Appends to the losses,
// in sample order, and gives what rank 0's executable prints, where asked.
Kept train(const Net& net, const graph::Update& update, const Group& group,
           const std::vector<Step>& steps, float rate = 0.05f, std::vector<float>* losses = nullptr,
           std::string* printed = nullptr);

}  // namespace trainer::test
