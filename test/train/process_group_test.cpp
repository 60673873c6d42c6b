#include "train/process_group.h"

#include <doctest/doctest.h>

#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/process/process.h"
#include "cluster/transport/socket.h"
#include "support/model.h"

namespace trainer::train::process_group_test {
namespace {

const char* const kModel = "{layers: [flatten, dense: 2]}";

cluster::Identity worker(int rank, int size, int port = 0) {
  cluster::Identity who;
  who.rank = who.index = rank;
  who.size = size;
  who.role = rank == 0 ? cluster::Role::kChief : cluster::Role::kWorker;
  who.master = {"127.0.0.1", port};
  who.source = "--rank";
  return who;
}

std::string problem(const std::string& parallel, int size, int servers = 0) {
  const config::Config config =
      trainer::test::build_config(kModel, "parallel: {" + parallel + "}\n");
  cluster::Identity who = worker(0, size);
  for (int i = 0; i < servers; ++i) who.cluster.ps.push_back({"localhost", 1000 + i});
  try {
    check_workers(config, who);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

void check_contains(const std::string& text, const std::string& part) {
  CAPTURE(text);
  CHECK(text.find(part) != std::string::npos);
}

}  // namespace

TEST_CASE("workers: settings that do not fit the number of workers are an error") {
  CHECK(problem("threads: 1", 1) == "");
  CHECK(problem("lr_scaling: linear", 2) == "");
  check_contains(problem("threads: 1", 2), "parallel.lr_scaling: must be given with 2 workers");
  CHECK(problem("strategy: parameter_server", 2, 1) == "");
  check_contains(problem("strategy: parameter_server", 2), "needs ps tasks in the cluster");
  check_contains(problem("lr_scaling: none", 2, 1), "which only parameter_server has a use for");
  const std::string ordered = "lr_scaling: none, reduction: ordered, micro_batches: 8";
  CHECK(problem(ordered, 4) == "");
  for (const int workers : {2, 3, 5, 8}) CHECK(problem(ordered, workers) == "");
  check_contains(problem(ordered, 9), "at least one for each of the 9 lanes");
  check_contains(problem(ordered + ", lanes: 3", 3), "at least one for each of the 9 lanes");
  CHECK(problem("lr_scaling: none, collective: ring", 3) == "");
  CHECK(problem(ordered + ", collective: ring", 2) == "");
  check_contains(problem(ordered + ", collective: ring", 3),
                 "needs auto: ring does not sum in the order of a tree");
}

TEST_CASE(
    "ProcessGroup: two ranks have sums, names of hosts and values that the chief broadcasts") {
  config::Config config = trainer::test::build_config(kModel, "parallel: {lr_scaling: none}\n");
  const graph::Graph model = trainer::test::build(kModel, trainer::test::sample({4, 4, 1}, 2));
  const cluster::ReservedPort port;
  const auto work = [&](int rank) {
    ProcessGroup group(worker(rank, 2, port.number()), config, {}, [](const std::string&) {});
    const bool is_chief = rank == 0;
    CHECK(group.is_chief() == is_chief);
    CHECK(group.on_one_machine());
    CHECK(group.broadcast_from_chief(is_chief));
    CHECK_FALSE(group.broadcast_from_chief(!is_chief));
    checkpoint::Metadata metadata{{"mine", "x"}};
    if (is_chief) metadata = {{"", "empty key"}, {"empty", ""}, {"lines", "a\nb"}};
    group.broadcast_from_chief(metadata);
    CHECK(metadata == checkpoint::Metadata{{"", "empty key"}, {"empty", ""}, {"lines", "a\nb"}});
    std::vector<checkpoint::Tensor> tensors(2);
    tensors[0].values = std::vector<float>(3, is_chief ? 1.5f : 0.0f);
    tensors[1].values = std::vector<float>(1, is_chief ? -2.0f : 0.0f);
    group.broadcast_from_chief(tensors);
    CHECK(tensors[0].values == std::vector<float>{1.5f, 1.5f, 1.5f});
    CHECK(tensors[1].values == std::vector<float>{-2.0f});
    CHECK(group.any_rank(!is_chief));
    CHECK_FALSE(group.any_rank(false));
    std::vector<double> values{is_chief ? 1.5 : 2.0, -1.0};
    group.sum(values);
    CHECK(values == std::vector<double>{3.5, -2.0});
    CHECK(group.hosts() == std::vector<std::string>{host_name(), host_name()});
    CHECK_THROWS_WITH_AS(group.agree("data", is_chief ? "7 images" : "8 images"),
                         doctest::Contains("8 images"), ConfigError);
  };
  std::thread other(work, 1);
  work(0);
  other.join();
}

TEST_CASE("ProcessGroup prints on rank 0 how three ranks sum") {
  const auto printed_with = [](const char* keys) {
    const config::Config config = trainer::test::build_config(
        kModel, concat("parallel: {device: cpu, lr_scaling: none", keys, "}\n"));
    const cluster::ReservedPort port;
    std::string printed;
    const auto join = [&](int rank) {
      const ProcessGroup group(worker(rank, 3, port.number()), config, {},
                               [&printed](const std::string& line) { printed += line; });
    };
    std::thread others[] = {std::thread(join, 1), std::thread(join, 2)};
    join(0);
    for (std::thread& other : others) other.join();
    return printed;
  };
  check_contains(printed_with(", reduction: ordered"),
                 "gradients are summed in the order of a tree");
  check_contains(printed_with(""), "gradients are summed in the order of a ring");
}

TEST_CASE("ProcessGroup: the error of binaries of two commits names the builds on both") {
  const config::Config config = trainer::test::build_config(
      kModel, "parallel: {lr_scaling: none, threads: 1, timeout: 20 seconds}\n");
  const graph::Graph model = trainer::test::build(kModel, trainer::test::sample({4, 4, 1}, 2));
  const cluster::ReservedPort port;
  std::string errors[2];
  const auto join = [&](int rank) {
    cluster::Identity who = worker(rank, 2, port.number());
    who.build = rank == 0 ? "trainer 1 (commit aaa)" : "trainer 1 (commit bbb)";
    try {
      const ProcessGroup group(who, config, {}, [](const std::string&) {});
    } catch (const Error& error) {
      errors[rank] = error.what();
    }
  };
  std::thread other(join, 1);
  join(0);
  other.join();
  for (const std::string& error : errors) {
    check_contains(error, "commit aaa");
    check_contains(error, "commit bbb");
  }
}

TEST_CASE("ProcessGroup: a group of one returns what it is given") {
  ProcessGroup group;
  CHECK(group.size() == 1);
  CHECK(group.is_chief());
  CHECK(group.on_one_machine());
  CHECK(group.gradients() == nullptr);
  CHECK(group.any_rank(true));
  CHECK_FALSE(group.any_rank(false));
  CHECK(group.broadcast_from_chief(true));
  std::vector<double> values{1.5, -1.0};
  group.sum(values);
  CHECK(values == std::vector<double>{1.5, -1.0});
  checkpoint::Metadata metadata{{"key", "value"}};
  group.broadcast_from_chief(metadata);
  CHECK(metadata == checkpoint::Metadata{{"key", "value"}});
  group.agree("data", "7 images");
  group.set_phase("training, step 1");
  group.fail(std::runtime_error("no other rank reads it"));
}

}  // namespace trainer::train::process_group_test
