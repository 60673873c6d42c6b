#include "commands/verify/verify.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "support/model.h"
#include "train/open.h"

namespace trainer::commands {
namespace {

struct Subject {
  explicit Subject(const std::string& layers, std::uint64_t seed = 42)
      : config(test::build_config("{layers: [" + layers + "]}",
                                  "data: {format: synthetic, synthetic: {train_samples: 101, "
                                  "test_samples: 30, shape: [8, 8, 1], classes: 3}}\n"
                                  "optimizer: {adam: {learning_rate: 1.0e-3}, ema: 0.9}\n" +
                                      concat("seed: ", seed, "\n"))),
        data(train::open_training_data(config)) {
    config.train.batch_size = 16;
    model = model::build_model(config.model, config.data, train::sample_spec(data), config.seed);
  }
  config::Config config;
  data::Datasets data;
  graph::Graph model;
};

const char* const kPlain =
    "conv: {filters: 4, activation: relu}, max_pool, dropout: 0.2, flatten, dense: 3";

}  // namespace

TEST_CASE("verify replicas: ordered sums give the same bits, and fast sums nearly equal values") {
  const Subject subject(kPlain);
  VerifyOptions options;
  options.steps = 15;  // two epochs and a bit
  const Verification result = verify_replicas(subject.config, subject.data, subject.model, options);
  REQUIRE(result.rows.size() == 6);
  CHECK(result.holds());
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(result.rows[i].promise == Promise::kOrdered);
    CHECK(result.rows[i].steps == 15);
    CHECK(result.rows[i].distance == 0);
    CHECK(result.rows[i].sha256 == result.rows[0].sha256);
    CHECK(result.rows[i + 3].promise == Promise::kFast);
    CHECK(result.rows[i + 3].steps == 10);
  }
  CHECK(result.rows[1].run == "2 x 8");
  CHECK(result.rows[3].sha256 != result.rows[0].sha256);
}

TEST_CASE("verify replicas compares only fast sums with batch_norm") {
  const Subject subject("conv: {filters: 4}, batch_norm, activation: relu, flatten, dense: 3");
  VerifyOptions options;
  options.replicas = {1, 2};
  options.steps = 4;
  const Verification result = verify_replicas(subject.config, subject.data, subject.model, options);
  REQUIRE(result.rows.size() == 2);
  CHECK(result.notes.size() == 2);
  CHECK(result.holds());
}

// The gradients of biases before a batch norm are nothing but rounding, and so are the biases.
TEST_CASE("verify replicas: variables that hold only rounding errors are ignored") {
  const Subject subject(
      "conv: {filters: 4}, batch_norm, activation: relu, conv: {filters: 4}, batch_norm, "
      "activation: relu, global_average_pool, dense: 3");
  VerifyOptions options;
  options.replicas = {1, 2, 4};
  options.steps = 10;
  const Verification result = verify_replicas(subject.config, subject.data, subject.model, options);
  REQUIRE(result.rows.size() == 3);
  CHECK(result.holds());
  for (const auto& row : result.rows) CHECK(row.distance < 1e-5);
}

// Twelve batch norms over sixteen samples: each step turns rounding into more of it.
TEST_CASE(
    "verify replicas: the limit is that of another order of sums where a model magnifies "
    "rounding") {
  std::string layers = "flatten";
  for (int i = 0; i < 12; ++i) layers += ", dense: 4, batch_norm, activation: relu";
  const Subject subject(layers + ", dense: 3");
  VerifyOptions options;
  options.replicas = {1, 4};
  options.steps = 10;
  const Verification result = verify_replicas(subject.config, subject.data, subject.model, options);
  REQUIRE(result.rows.size() == 2);
  CHECK(result.rows[1].distance > 1e-5);
  REQUIRE(result.notes.size() == 3);
  CHECK(result.notes[1].starts_with("this model magnifies rounding"));
  CHECK(result.notes[1].ends_with("so that runs must agree within 4 times that"));
}

// With one thread, the first other order of the sums is that of two replicas. Four replicas end
// further apart.
TEST_CASE("verify replicas: one thread has the verdict of two where a model magnifies rounding") {
  std::string layers = "flatten";
  for (int i = 0; i < 12; ++i) layers += ", dense: {units: 6, activation: relu}, layer_norm";
  Subject subject(layers + ", dense: 3", 17);
  VerifyOptions options;
  options.steps = 10;
  for (const std::int64_t threads : {1, 2}) {
    CAPTURE(threads);
    subject.config.parallel.threads = threads;
    CHECK(verify_replicas(subject.config, subject.data, subject.model, options).holds());
  }
}

TEST_CASE("verify replicas: a batch that replicas cannot share is an error") {
  const Subject subject(kPlain);
  VerifyOptions options;
  options.replicas = {1, 3};
  options.steps = 2;
  CHECK_THROWS_AS(verify_replicas(subject.config, subject.data, subject.model, options),
                  ConfigError);
}

TEST_CASE("verify resume: a resumed run has the parameters of an uninterrupted run") {
  Subject subject(kPlain);
  subject.config.train.batch_size = 8;
  subject.config.parallel.replicas = 2;
  VerifyOptions options;
  options.steps = 11;
  const Verification result = verify_resume(subject.config, subject.data, subject.model, options);
  REQUIRE(result.rows.size() == 2);
  CHECK(result.rows[1].run == "resumed after step 5");
  CHECK(result.rows[1].steps == 11);
  CHECK(result.holds());
}

TEST_CASE("verify resume: the resumed run makes all steps of a config with stop_at or early_stop") {
  Subject subject(kPlain);
  SUBCASE("stop_at") { subject.config.train.stop_at = config::StopAt{"test/accuracy", 0, {}}; }
  SUBCASE("early_stop") {
    subject.config.train.early_stop = config::EarlyStop{"test/accuracy", 1, 0, true, {}};
  }
  VerifyOptions options;
  options.steps = 6;
  const Verification result = verify_resume(subject.config, subject.data, subject.model, options);
  REQUIRE(result.rows.size() == 2);
  CHECK(result.rows[0].steps == 6);
  CHECK(result.rows[1].steps == 6);
  CHECK(result.holds());
}

TEST_CASE("verify prints runs that differ as text and JSON") {
  Verification result;
  result.rows.push_back({Promise::kOrdered, "1 x 4", 2, std::string(64, 'a'), 0, 1.5, true});
  CHECK(result.holds());
  result.rows.push_back({Promise::kOrdered, "2 x 2", 2, std::string(64, 'b'), 0.25, 1.5, false});
  CHECK_FALSE(result.holds());
  std::ostringstream text, json;
  print_verification(result, text);
  CHECK(text.str().find("DOES NOT HOLD") != std::string::npos);
  print_verification_json(result, json);
  std::istringstream lines(json.str());
  std::string line;
  std::getline(lines, line);
  CHECK(nlohmann::json::parse(line).at("holds") == true);
  std::getline(lines, line);
  CHECK(nlohmann::json::parse(line).at("distance") == 0.25);
  std::getline(lines, line);
  CHECK(nlohmann::json::parse(line).at("holds") == false);
}

}  // namespace trainer::commands
