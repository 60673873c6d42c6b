#include <doctest/doctest.h>

#include "config/support.h"

namespace trainer::config {
namespace {

Override set(const std::string& path, const std::string& value) { return {path, value, "--set"}; }

TEST_CASE("an override replaces, and its origin says so") {
  const LoadedConfig loaded =
      parse(kSmall, {set("train.batch_size", "7"), set("model.layers[1].dense.activation", "relu"),
                     set("model.input", "[32, 32, 3]"), set("model.input[2]", "1")});
  CHECK(loaded.config.train.batch_size == 7);
  const auto& dense = std::get<DenseLayer>(loaded.config.model.layers[1].kind);
  CHECK(dense.units == 10);
  CHECK(dense.activation == Activation::kRelu);
  CHECK(loaded.config.model.input == std::vector<std::int64_t>{32, 32, 1});
  CHECK(loaded.origins.at("train.batch_size").kind == Origin::Kind::kSet);
  CHECK(loaded.origins.at("model.layers[1].dense.activation").kind == Origin::Kind::kSet);
  CHECK(loaded.origins.at("model.layers[1].dense.units").kind == Origin::Kind::kFile);
}

TEST_CASE("an override of a variant replaces the choice and keeps the common keys") {
  const std::string text = kSmall + "optimizer: {adam: {learning_rate: 0.5}, clip_norm: 2}\n";
  const Optimizer sgd = parse(text, {set("optimizer.sgd.momentum", "0.9")}).config.optimizer;
  CHECK(std::get<Sgd>(sgd.kind).momentum == 0.9);
  CHECK(std::get<Sgd>(sgd.kind).learning_rate == 0.01);
  CHECK(sgd.clip_norm == 2.0);
  const Optimizer both =
      parse(text, {set("optimizer.sgd.momentum", "0.9"), set("optimizer.sgd.learning_rate", "0.3")})
          .config.optimizer;
  CHECK(std::get<Sgd>(both.kind).momentum == 0.9);
  CHECK(std::get<Sgd>(both.kind).learning_rate == 0.3);
  const Optimizer adam = parse(text, {set("optimizer.adam.beta_1", "0.8")}).config.optimizer;
  CHECK(std::get<Adam>(adam.kind).learning_rate == 0.5);
  const Optimizer clip = parse(text, {set("optimizer.clip_value", "1")}).config.optimizer;
  CHECK(!clip.clip_norm.has_value());
  CHECK(clip.clip_value == 1.0);
}

TEST_CASE("an override reaches into shorthands") {
  const std::string text =
      "model: {layers: [dropout: 0.5, flatten, dense: 3]}\noptimizer: adam\n" + kData + kTrain;
  const Config config =
      parse(text,
            {set("optimizer.adam.learning_rate", "0.1"), set("model.layers[0].dropout.name", "d"),
             set("model.layers[1].flatten.name", "f"),
             set("model.layers[2].dense.kernel_initializer.constant.value", "2")})
          .config;
  CHECK(std::get<Adam>(config.optimizer.kind).learning_rate == 0.1);
  CHECK(std::get<DropoutLayer>(config.model.layers[0].kind).rate == 0.5);
  CHECK(config.model.layers[0].name == "d");
  CHECK(config.model.layers[1].name == "f");
  CHECK(std::get<DenseLayer>(config.model.layers[2].kind).units == 3);
  CHECK(std::get<DenseLayer>(config.model.layers[2].kind).kernel_initializer.value == 2);
}

TEST_CASE("epochs and max_steps replace each other") {
  const Config steps = parse(kSmall, {set("train.max_steps", "5")}).config;
  CHECK(steps.train.max_steps == 5);
  CHECK(!steps.train.epochs.has_value());
  const Config epochs =
      parse(kModel + kData + "train: {max_steps: 9}\n", {{"train.epochs", "2", "--epochs"}}).config;
  CHECK(epochs.train.epochs == 2.0);
  CHECK(!epochs.train.max_steps.has_value());
}

TEST_CASE("an override can give what the file lacks, and take back") {
  const Config config =
      parse(kModel + kData, {set("train.epochs", "1"), set("name", "given")}).config;
  CHECK(config.name == "given");
  CHECK(config.train.epochs == 1.0);
  CHECK(!parse(kModel + "data: {format: digits, path: d, limit: 5}\n" + kTrain,
               {set("data.limit", "null")})
             .config.data.limit.has_value());
}

TEST_CASE("an override heals what is wrong in the file") {
  CHECK(mistakes(kModel + kData + "train: {epochs: 1, batch_size: many}\n",
                 {set("train.batch_size", "4")})
            .empty());
  CHECK(mistakes(kModel + "data: {format: digits, path: \"${UNSET}\"}\n" + kTrain,
                 {set("data.path", "d")})
            .empty());
}

TEST_CASE("mistakes in overrides name the flag as it was typed") {
  CHECK(mistakes(kSmall, {{"train.batch_size", "0", "--batch-size"}}) ==
        "--batch-size: error: train.batch_size: must be at least 1; found '0'");
  const std::string message = mistakes(kSmall, {set("optimiser.adam", "")});
  CHECK(message.starts_with(
      "--set optimiser.adam: error: unknown key 'optimiser', did you mean 'optimizer'?"));
}

TEST_CASE("values of overrides see the environment") {
  CHECK(parse(kSmall, {set("data.path", "${DIR}/x")}, {{"DIR", "/y"}}).config.data.path == "/y/x");
}

TEST_CASE("the content of an anchor stays when one use of it is overridden") {
  const auto layers = parse("model: {layers: [dense: &d {units: 4}, dense: *d]}\n" + kData + kTrain,
                            {set("model.layers[1].dense.units", "5")})
                          .config.model.layers;
  CHECK(std::get<DenseLayer>(layers[0].kind).units == 4);
  CHECK(std::get<DenseLayer>(layers[1].kind).units == 5);
}

}  // namespace
}  // namespace trainer::config
