// parallel.gpus, parallel.replicas, train.precision and train.loss_scale.
#include <doctest/doctest.h>

#include "config/support.h"

namespace trainer::config {
namespace {

Parallel parse_parallel(const std::string& section, const std::vector<Override>& overrides = {},
                        const Environment& environment = {}) {
  return parse(kSmall + "parallel: {" + section + "}\n", overrides, environment).config.parallel;
}

TEST_CASE("parallel.gpus may be a number, all or a list of indices") {
  CHECK(parse_parallel("").gpus.kind == Gpus::Kind::kAll);
  CHECK(parse_parallel("gpus: all").gpus.kind == Gpus::Kind::kAll);
  const Gpus two = parse_parallel("gpus: 2, lr_scaling: none").gpus;
  CHECK(two.kind == Gpus::Kind::kCount);
  CHECK(two.count == 2);
  const Gpus list = parse_parallel("gpus: [0, 2, 2], lr_scaling: none").gpus;
  CHECK(list.kind == Gpus::Kind::kIndices);
  CHECK(list.indices == std::vector<std::int64_t>{0, 2, 2});
}

TEST_CASE("parallel.gpus takes variables of the environment, or their defaults") {
  const Parallel parallel = parse_parallel(
      "device: cuda, gpus: \"${NUM_GPUS:-all}\", lr_scaling: none", {}, {{"NUM_GPUS", "4"}});
  CHECK(parallel.device == DeviceKind::kCuda);
  CHECK(parallel.gpus.count == 4);
  CHECK(parse_parallel("gpus: \"${NUM_GPUS:-all}\"").gpus.kind == Gpus::Kind::kAll);
  CHECK(parse(kModel + kData + "train: {epochs: 1, batch_size: \"${BATCH_SIZE:-64}\"}\n")
            .config.train.batch_size == 64);
}

TEST_CASE("parallel.gpus: a number or a list decides the number of replicas") {
  CHECK(parse_parallel("gpus: 3, lr_scaling: none").replicas == 3);
  CHECK(parse_parallel("gpus: [1, 1], lr_scaling: none").replicas == 2);
  CHECK(parse_parallel("gpus: all, replicas: 2, lr_scaling: none").replicas == 2);
  CHECK(parse_parallel("gpus: all").replicas == 1);
  CHECK(parse_parallel("gpus: \"0\", replicas: 2, lr_scaling: none").replicas == 2);
  const LoadedConfig loaded = parse(kSmall + "parallel: {gpus: 2, lr_scaling: none}\n");
  CHECK(loaded.origins.at("parallel.replicas").loc.line ==
        loaded.origins.at("parallel.gpus").loc.line);
}

TEST_CASE("parallel.gpus: gpus or replicas in an override replaces both keys of the file") {
  const Parallel gpus =
      parse_parallel("replicas: 4, lr_scaling: none",
                     {{"parallel.gpus", "[0, 1]", "--gpus", Override::Syntax::kYaml}});
  CHECK(gpus.replicas == 2);
  const Parallel replicas =
      parse_parallel("gpus: 4, lr_scaling: none", {{"parallel.replicas", "2", "--replicas"}});
  CHECK(replicas.replicas == 2);
  CHECK(replicas.gpus.count == 2);
  CHECK(parse_parallel("gpus: [0, 0], replicas: 2, lr_scaling: none").replicas == 2);
}

TEST_CASE("parallel.require_cluster is a number, or true for any above one") {
  const auto accepts = [](const char* value, std::int64_t processes) {
    return parse_parallel(concat("require_cluster: ", value)).require_cluster->accepts(processes);
  };
  CHECK(accepts("true", 2));
  CHECK(accepts("true", 7));
  CHECK_FALSE(accepts("true", 1));
  CHECK(accepts("4", 4));
  CHECK(accepts("1", 1));
  CHECK_FALSE(accepts("4", 2));
  CHECK_FALSE(parse_parallel("").require_cluster);
  for (const char* value : {"false", "0", "2.5", "[2]"}) {
    CAPTURE(std::string(value));
    CHECK(mistakes(kSmall + "parallel: {require_cluster: " + value + "}\n") != "");
  }
}

TEST_CASE("parallel.collective may be nccl only with one replica per GPU") {
  using enum Collective;
  CHECK(parse_parallel("").collective == kAuto);
  CHECK(parse_parallel("collective: ring").collective == kRing);
  CHECK(parse_parallel("collective: nccl, gpus: 4, lr_scaling: none").collective == kNccl);
  CHECK(parse_parallel("collective: nccl, gpus: [1, 0], lr_scaling: none").collective == kNccl);
  const auto problem = [](const std::string& section) {
    return mistakes(kSmall + "parallel: {" + section + "}\n");
  };
  const auto contains = [](const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  };
  const std::string no_gpu = "parallel.collective: nccl sums on GPUs, and this run is on the CPU";
  CHECK(contains(problem("collective: nccl, device: cpu"), no_gpu));
  CHECK(contains(problem("collective: nccl, gpus: \"0\""), no_gpu));
  CHECK(contains(problem("collective: nccl, gpus: [2, 0, 2], lr_scaling: none"),
                 "nccl does not sum replicas that share a GPU, and parallel.gpus has GPU 2 more "
                 "than once; use auto"));
}

TEST_CASE("train.loss_scale may be a number or dynamic with float16") {
  const auto train = [](const std::string& rest) {
    return parse(kModel + kData + "train: {epochs: 1, " + rest + "}\n").config.train;
  };
  CHECK(train("precision: tf32").precision == Precision::kTf32);
  CHECK(train("precision: fp16").precision == Precision::kFloat16);
  CHECK_FALSE(train("precision: float16").loss_scale.has_value());
  REQUIRE(train("precision: float16, loss_scale: dynamic").loss_scale.has_value());
  CHECK_FALSE(train("precision: float16, loss_scale: dynamic").loss_scale->fixed.has_value());
  CHECK(train("precision: float16, loss_scale: 1.0e3").loss_scale->fixed == 1000);
}

}  // namespace
}  // namespace trainer::config
