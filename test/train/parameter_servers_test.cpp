#include "train/servers/parameter_servers.h"

#include <doctest/doctest.h>

#include "support.h"

namespace trainer::train {
namespace {

using namespace support;

cluster::Identity with_servers(std::size_t count) {
  cluster::Identity who;
  who.cluster.chief = {{"localhost", 1000}};
  for (std::size_t i = 0; i < count; ++i) {
    who.cluster.ps.push_back({"localhost", 2000 + static_cast<int>(i)});
  }
  return who;
}

}  // namespace

TEST_CASE("servers: a job has parameter servers if its cluster has ps tasks") {
  CHECK_FALSE(has_parameter_servers(with_servers(0)));
  CHECK(has_parameter_servers(with_servers(2)));
}

TEST_CASE("servers: tasks agree on cluster and config, except for keys of one task") {
  const cluster::Identity who = with_servers(1);
  const config::Config config = run_config();
  const std::string agreement = agreement_facts(who, config);
  CHECK(agreement.find("version: ") == 0);
  config::Config other = config;
  other.parallel.threads = 9;
  other.run.dir = "elsewhere";
  // The normalisation that a worker sets for float images, which a server does not read.
  other.data.normalize = config::Normalize{1, {}, {}, false};
  CHECK(agreement_facts(who, other) == agreement);
  other.data.normalize->scale = 0.5;
  CHECK(agreement_facts(who, other) != agreement);
  other = config;
  other.seed += 1;
  CHECK(agreement_facts(who, other) != agreement);
  CHECK(agreement_facts(with_servers(2), config) != agreement);
}

TEST_CASE("servers: workers agree on the training data and the frozen tensors") {
  const auto common = [](const std::string& freeze, std::int64_t samples, std::uint64_t seed) {
    Trial trial(run_config(), samples);
    trial.config = trainer::test::build_config("{backbone: {name: mobilenet_v2, alpha: 0.35" +
                                               freeze + "}, head: [flatten, dense: 2]}");
    engine::Engine engine(model::build_model(trial.config.model, trial.config.data,
                                             trainer::test::sample({32, 32, 3}, 2), 1),
                          trial.config, open_test_backends(1), engine::Use::kTrain);
    engine.initialise(seed);
    return common_model(trial.data, engine);
  };
  const std::string trained = common("", 24, 1);
  CHECK(trained.find("frozen tensors: none") != std::string::npos);
  CHECK(common("", 24, 2) == trained);
  CHECK(common("", 28, 1) != trained);
  const std::string frozen = common(", freeze: all", 24, 1);
  CHECK(common(", freeze: all", 24, 1) == frozen);
  CHECK(common(", freeze: all", 24, 2) != frozen);
}

TEST_CASE("servers: the timeout is in milliseconds") {
  config::Config config = run_config();
  config.parallel.timeout = {1.5, config::Duration::Unit::kSeconds};
  CHECK(exchange_timeout(config) == std::chrono::milliseconds(1500));
}

}  // namespace trainer::train
