// GPUs as a user asks for them, on plugins that were crafted for tests (test/backend/plugin).
#include <doctest/doctest.h>

#include "base/error.h"
#include "e2e/program.h"
#include "support/contains.h"

namespace trainer::e2e::gpus_test {
namespace {

using test::contains;

// A machine whose CUDA backend finds "status driver gpus".
Environment crafted(const std::string& finds) {
  return {{"TRAINER_CUDA_PLUGIN", CRAFTED_PLUGIN}, {"CRAFTED", finds}, {"TRAINER_GPU_CHECK", "0"}};
}

std::string small_config(const Workspace& work, const std::string& parallel = "") {
  return work.config(concat("model: {layers: [flatten, dense: 10]}\ndata: {format: idx, path: ",
                            work.data(), ", limit: 64}\ntrain: {max_steps: 2, batch_size: 8}\n",
                            "run: {dir: ", (work / "run").string(), "}\n",
                            parallel.empty() ? "" : "parallel: {" + parallel + "}\n"));
}

}  // namespace

TEST_CASE("devices prints the GPUs, or the reason why there is none") {
  const Result two = run({"devices"}, crafted("0 13020 2"));
  CHECK(two.code == 0);
  CHECK(contains(two.out, "cpu, "));
  CHECK(
      contains(two.out, "GPU 1: Crafted 1, compute capability 9.1, 132 multiprocessors, 80 GiB\n"));
  const Json listed = run({"devices", "--json"}, crafted("0 13020 2")).event("devices");
  REQUIRE(listed.at("gpus").size() == 2);
  CHECK(listed.at("gpus")[1].at("index") == 1);
  CHECK(listed.at("gpus")[1].at("name") == "Crafted 1");
  CHECK(listed.at("gpus")[1].at("compute_capability") == "9.1");
  CHECK(listed.at("gpus")[1].at("memory_bytes") == std::int64_t{80} << 30);
  CHECK(listed.at("no_gpu").is_null());

  const Result none = run({"devices"}, crafted("35 0 0"));
  CHECK(none.code == 0);
  CHECK(contains(none.out, "no GPU: this machine has no NVIDIA driver"));
  const Json nothing = run({"devices", "--json"}, crafted("35 0 0")).event("devices");
  CHECK(nothing.at("gpus").empty());
  CHECK(contains(nothing.at("no_gpu"), "this machine has no NVIDIA driver"));
}

TEST_CASE(
    "parallel.device: without a GPU, cuda is an error with the reason and auto uses the CPU") {
  const Workspace work;
  const std::string config = small_config(work);
  for (const char* command : {"train", "benchmark"}) {
    CAPTURE(command);
    const Result result =
        run({command, config, "--set", "parallel.device=cuda"}, crafted("35 0 0"));
    CHECK(result.code == 4);
    CHECK(contains(result.err, "parallel.device: cuda: this machine has no NVIDIA driver"));
    CHECK(contains(result.err, "use device: cpu or auto"));
  }
  const Result quiet = run({"train", config}, crafted("35 0 0"));
  CHECK(quiet.code == 0);
  CHECK_FALSE(contains(quiet.err, "parallel.device"));
  const Result old = run({"train", config, "--overwrite"}, crafted("35 11040 0"));
  CHECK(old.code == 0);
  CHECK(contains(old.err,
                 "warning: parallel.device: auto uses the CPU: the NVIDIA driver is too old"));
  for (const char* finds : {"35 0 0", "35 11040 0"}) {
    const Result asked = run({"train", config, "--overwrite", "--gpus", "1"}, crafted(finds));
    CHECK(asked.code == 0);
    CHECK(contains(asked.err, "warning: parallel.gpus: 1, but device: auto uses the CPU: th"));
  }
  CHECK_FALSE(contains(run({"train", config, "--overwrite", "--gpus", "0"}, crafted("35 0 0")).err,
                       "parallel.gpus"));
}

TEST_CASE("train: --gpus and NUM_GPUS choose the GPUs") {
  const Workspace work;
  const std::string config = small_config(work, "gpus: \"${NUM_GPUS:-all}\", lr_scaling: none");
  const auto error = [&](const std::string& command, const std::vector<std::string>& arguments,
                         const std::string& gpus = "", const std::string& finds = "0 13020 2") {
    Environment environment = crafted(finds);
    if (!gpus.empty()) environment.emplace_back("NUM_GPUS", gpus);
    Arguments all{command};
    if (command == "verify") all.push_back("replicas");
    all.push_back(config);
    all.insert(all.end(), arguments.begin(), arguments.end());
    const Result result = run(all, environment);
    CHECK(result.code == 4);
    return result.err;
  };
  // The crafted GPUs have no memory, and their message names them.
  for (const char* command : {"train", "benchmark"}) {
    CAPTURE(command);
    CHECK(contains(error(command, {"--gpus", "[1]"}), "crafted GPU 1 is full"));
    CHECK(contains(error(command, {"--gpus", "1"}), "crafted GPU 0 is full"));
    CHECK(contains(error(command, {}, "1"), "crafted GPU 0 is full"));
    CHECK(contains(error(command, {"--gpus", "[1, 1]"}), "crafted GPU 1 is full"));
    CHECK(contains(error(command, {}, "3"), "3 replicas need a GPU each, and this machine has 2"));
    CHECK(contains(error(command, {"--gpus", "[0, 2]"}), "there is no GPU 2"));
  }
  CHECK(contains(error("verify", {"--gpus", "[1]", "--replicas", "1,2"}), "crafted GPU 1 is full"));
  CHECK(contains(error("verify", {"--replicas", "4"}), "4 replicas need a GPU each"));
  const Result cpu = run({"train", config, "--gpus", "0"}, crafted("0 13020 2"));
  CHECK(cpu.code == 0);
}

TEST_CASE("train: PET_NPROC_PER_NODE is NUM_GPUS on a node with GPUs, unless a number is given") {
  const Workspace work;
  const std::string config = small_config(work, "gpus: \"${NUM_GPUS:-3}\", lr_scaling: none");
  const auto error = [&](const std::string& processes, const Arguments& arguments = {},
                         const std::string& gpus = "") {
    Environment environment = crafted("0 13020 2");
    environment.emplace_back("PET_NODE_RANK", "0");
    environment.emplace_back("PET_NNODES", "1");
    environment.emplace_back("PET_NPROC_PER_NODE", processes);
    if (!gpus.empty()) environment.emplace_back("NUM_GPUS", gpus);
    Arguments all{"train", config};
    all.insert(all.end(), arguments.begin(), arguments.end());
    return run(all, environment).err;
  };
  CHECK(contains(error("4"), "4 replicas need a GPU each, and this machine has 2"));
  CHECK(contains(error("gpu"), "crafted GPU 0 is full"));
  CHECK(contains(error("auto"), "3 replicas need a GPU each"));
  CHECK(contains(error("4", {}, "5"), "5 replicas need a GPU each"));
  CHECK(contains(error("4", {"--gpus", "5"}), "5 replicas need a GPU each"));
  CHECK(contains(error("4", {"--set", "parallel.gpus=5"}), "5 replicas need a GPU each"));
}

TEST_CASE(
    "train: one replica per GPU follows the rules for replicas when no number of GPUs is given") {
  const Workspace work;
  const std::string config = small_config(work);
  const Result rule = run({"train", config}, crafted("0 13020 2"));
  CHECK(rule.code == 2);
  CHECK(contains(rule.err, "parallel.lr_scaling: must be given with 2 replicas"));
  CHECK(contains(run({"train", config}, crafted("0 13020 1")).err, "crafted GPU 0 is full"));
  // verify has a list of its own.
  const Result verify =
      run({"verify", "replicas", config, "--replicas", "1,2"}, crafted("0 13020 2"));
  CHECK(verify.code == 4);
  CHECK(contains(verify.err, "crafted GPU 0 is full"));
  // The check of a config does not depend on the machine.
  CHECK(run({"validate", config}, crafted("0 13020 2")).code == 0);
  const Result one = run({"train", config, "--set", "parallel.replicas=1"}, crafted("0 13020 2"));
  CHECK(one.code == 4);
  CHECK(contains(one.err, "crafted GPU 0 is full"));
}

TEST_CASE("parallel.collective: one for other devices is an error, and plan prints the choice") {
  const Workspace work;
  const auto train = [&](const std::string& collective, const std::string& finds) {
    return run({"train", small_config(work, "lr_scaling: none, gpus: 2, collective: " + collective),
                "--overwrite"},
               crafted(finds));
  };
  const Result refused = train("ring", "0 13020 2");
  CHECK(refused.code == 4);
  CHECK(contains(refused.err, "parallel.collective: ring is for sums on CPUs"));
  CHECK(contains(refused.err, "NCCL_ALGO=allreduce:ring"));
  CHECK(train("ring", "35 0 0").code == 0);
  for (const char* collective : {"auto", "nccl"}) {
    CHECK(contains(train(collective, "0 13020 2").err, "is full"));
  }
  const Result cpu = train("nccl", "35 0 0");
  CHECK(cpu.code == 4);
  CHECK(contains(cpu.err, "parallel.collective: nccl sums on GPUs, and this run is on the CPU"));
  const Result plan =
      run({"plan", small_config(work, "lr_scaling: none, replicas: 2")}, crafted("35 0 0"));
  CHECK(plan.code == 0);
  CHECK(contains(plan.out, "in memory"));
}

TEST_CASE("train: GPUs are divided evenly among several processes of one machine") {
  const Workspace work;
  // A worker opens its devices before it meets the others.
  const std::string config =
      small_config(work, "lr_scaling: none, strategy: parameter_server, device: cuda");
  const auto taken = [&](int worker, const std::string& gpus) {
    Environment environment = crafted("0 13020 " + gpus);
    environment.emplace_back(
        "TF_CONFIG",
        concat(R"({"cluster": {"chief": ["localhost:7101"], "ps": ["localhost:7102"], )",
               R"("worker": ["localhost:7103", "localhost:7104"]}, )",
               R"("task": {"type": "worker", "index": )", worker, "}}"));
    const Result result = run({"train", config}, environment);
    CHECK(result.code == 4);
    return result.err;
  };
  CHECK(contains(taken(0, "3"), "crafted GPU 1 is full"));
  CHECK(contains(taken(1, "3"), "crafted GPU 2 is full"));
  CHECK(contains(taken(1, "6"), "crafted GPU 2 is full"));  // a worker has one replica
  CHECK(contains(taken(1, "1"), "crafted GPU 0 is full"));  // all that this process sees
}

}  // namespace trainer::e2e::gpus_test
