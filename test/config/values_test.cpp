#include <doctest/doctest.h>

#include "config/support.h"
#include "support/contains.h"

namespace trainer::config {
namespace {

Run parse_run(const std::string& run) { return parse(kSmall + "run: {" + run + "}\n").config.run; }

TEST_CASE("Duration: values with a unit are read and printed") {
  CHECK(parse_run("log_every: 100 steps").log_every == Duration{100, Duration::Unit::kSteps});
  CHECK(parse_run("log_every: 1 step").log_every == Duration{1, Duration::Unit::kSteps});
  CHECK(parse_run("log_every: 0.5 epochs").log_every == Duration{0.5, Duration::Unit::kEpochs});
  CHECK(parse_run("log_every: 30 seconds").log_every == Duration{30, Duration::Unit::kSeconds});
  CHECK(to_string(Duration{1, Duration::Unit::kEpochs}) == "1 epoch");
  CHECK(to_string(Duration{0.5, Duration::Unit::kEpochs}) == "0.5 epochs");
  CHECK(to_string(Duration{30, Duration::Unit::kSeconds}) == "30 seconds");
  CHECK(to_string(Duration{100, Duration::Unit::kSteps}) == "100 steps");
}

TEST_CASE("run.mlflow: the URL of a server without secrets is read") {
  for (const char* url :
       {"http://localhost:5000", "https://host/mlflow/", "http://[::1]:5000", ""}) {
    CAPTURE(url);
    CHECK(parse_run(concat("mlflow: '", url, "'")).mlflow == url);
  }
  for (const char* wrong : {"mlruns", "file:///mlruns", "http://", "http:///a", "ftp://host",
                            "http://user:hunter2@host", "http://host?token=a", "http://host#a",
                            "http://a b", "databricks"}) {
    CAPTURE(wrong);
    const std::string found = mistakes(concat(kSmall, "run: {mlflow: '", wrong, "'}\n"));
    CHECK(found.find("run.mlflow: ") != std::string::npos);
    CHECK(found.find("hunter2") == std::string::npos);
  }
}

TEST_CASE("run.prometheus: a file or a port is read") {
  for (const auto& [text, file, host, port] :
       {std::tuple{"a/b.prom", "a/b.prom", "", 0}, std::tuple{":9400", "", "127.0.0.1", 9400},
        std::tuple{"0.0.0.0:1", "", "0.0.0.0", 1}, std::tuple{"[::1]:65535", "", "::1", 65535}}) {
    CAPTURE(text);
    CHECK(parse_run(concat("prometheus: '", text, "'")).prometheus == text);
    const auto target = parse_prometheus(text);
    REQUIRE(target.has_value());
    CHECK(target->file == file);
    CHECK(target->host == host);
    CHECK(target->port == port);
  }
  for (const char* wrong : {"metrics", "metrics.txt", ".prom", "9400", ":0", ":65536", ":", ":94x",
                            ": 9400", "http://host:9400", "a b:9400", ":-1"}) {
    CAPTURE(wrong);
    CHECK(test::contains(mistakes(concat(kSmall, "run: {prometheus: '", wrong, "'}\n")),
                         "run.prometheus: expected a file whose name ends in .prom"));
  }
}

TEST_CASE("parse_config reads numbers as decimal with full precision and never as octal") {
  CHECK(parse("seed: 18446744073709551615\n" + kSmall).config.seed == 18446744073709551615u);
  CHECK(parse("seed: +7\n" + kSmall).config.seed == 7);
  CHECK(parse("seed: 0\n" + kSmall).config.seed == 0);
  const auto rate = [](const std::string& text) {
    const std::string optimizer = "optimizer: {adam: {learning_rate: " + text + "}}\n";
    return std::get<Adam>(parse(kSmall + optimizer).config.optimizer.kind).learning_rate;
  };
  CHECK(rate("1e-3") == 1e-3);
  CHECK(rate("1.0E-3") == 1e-3);
  CHECK(rate(".5") == 0.5);
  CHECK(rate("3") == 3.0);
  CHECK(rate("0.1") == 0.1);
  for (const char* wrong : {"010", "0x10", "1_0", "inf", "nan", "-1", "1e400", "1e", "''"}) {
    CAPTURE(wrong);
    CHECK(!mistakes(kSmall + "optimizer: {adam: {learning_rate: " + std::string(wrong) + "}}\n")
               .empty());
  }
}

TEST_CASE("parse_config: booleans are true and false only, other spellings are texts") {
  const auto classes = parse(kModel + kTrain +
                             "data: {format: digits, path: d, classes: [yes, no, on, 010, 1.50]}\n")
                           .config.data.classes;
  CHECK(classes == std::vector<std::string>{"yes", "no", "on", "010", "1.50"});
  CHECK(parse_run("tensorboard: false").tensorboard == false);
  CHECK(mistakes(kSmall + "run: {tensorboard: no}\n") ==
        "x.yaml:4:20: error: run.tensorboard: expected true or false, found 'no'");
}

TEST_CASE("model.layers: short forms have the values of their long forms") {
  const auto layers = parse_layers(
      "dropout: 0.25, activation: tanh, flatten, dense: 10, max_pool: [3, 2], zero_pad: 1, "
      "average_pool, reshape: [2, -1], conv: {filters: 4, kernel_size: 5, padding: [1, 2, 3, 4]}");
  REQUIRE(layers.size() == 9);
  CHECK(std::get<DropoutLayer>(layers[0].kind).rate == 0.25);
  CHECK(std::get<ActivationLayer>(layers[1].kind).function == Activation::kTanh);
  CHECK(std::holds_alternative<FlattenLayer>(layers[2].kind));
  CHECK(std::get<DenseLayer>(layers[3].kind).units == 10);
  CHECK(std::get<MaxPoolLayer>(layers[4].kind).pool_size == Pair{3, 2});
  CHECK(!std::get<MaxPoolLayer>(layers[4].kind).strides.has_value());
  CHECK(std::get<ZeroPadLayer>(layers[5].kind).padding == std::array<std::int64_t, 4>{1, 1, 1, 1});
  CHECK(std::get<AveragePoolLayer>(layers[6].kind).pool_size == Pair{2, 2});
  CHECK(std::get<ReshapeLayer>(layers[7].kind).target_shape == std::vector<std::int64_t>{2, -1});
  const auto& conv = std::get<ConvLayer>(layers[8].kind);
  CHECK(conv.filters == 4);
  CHECK(conv.kernel_size == Pair{5, 5});
  CHECK(conv.padding == Padding{Padding::Kind::kExplicit, {1, 2, 3, 4}});
}

TEST_CASE("initializers are names, or maps with numbers") {
  const auto start = [](const std::string& text) {
    return std::get<DenseLayer>(
               parse_layers("dense: {units: 2, kernel_initializer: " + text + "}")[0].kind)
        .kernel_initializer;
  };
  CHECK(start("he_normal").kind == Initializer::Kind::kHeNormal);
  CHECK(start("constant") == Initializer{Initializer::Kind::kConstant});
  CHECK(start("{constant: {value: 0.1}}").value == 0.1);
  const Initializer uniform = start("{random_uniform: {low: -1, high: 2}}");
  CHECK(uniform.kind == Initializer::Kind::kRandomUniform);
  CHECK(uniform.low == -1);
  CHECK(uniform.high == 2);
  CHECK(start("{random_normal: {stddev: 3}}").stddev == 3);
}

TEST_CASE("optimizer and schedule are a name, or a map beside the common keys") {
  CHECK(std::get<Sgd>(parse(kSmall + "optimizer: sgd\n").config.optimizer.kind).learning_rate ==
        0.01);
  const Optimizer optimizer =
      parse(kSmall +
            "optimizer: {adamw: {weight_decay: 0.1}, clip_norm: 1, accumulate: 2, ema: 0.9}\n")
          .config.optimizer;
  CHECK(std::get<AdamW>(optimizer.kind).weight_decay == 0.1);
  CHECK(optimizer.clip_norm == 1.0);
  CHECK(optimizer.accumulate == 2);
  CHECK(optimizer.ema == 0.9);
  CHECK(std::holds_alternative<Adam>(parse(kSmall + "optimizer:\n").config.optimizer.kind));
  CHECK(!mistakes(kSmall + "optimizer: {clip_norm: 1}\n").empty());

  CHECK(std::holds_alternative<CosineSchedule>(
      parse(kSmall + "schedule: cosine\n").config.schedule.kind));
  const Schedule warm = parse(kSmall + "schedule: {warm_up: {over: 5 steps}}\n").config.schedule;
  CHECK(std::holds_alternative<ConstantSchedule>(warm.kind));
  CHECK(warm.warm_up->over == Duration{5, Duration::Unit::kSteps});
  const auto ramp = std::get<RampUpSchedule>(
      parse(kSmall + "schedule: {ramp_up: {peak: 1.0e-3, scale: sqrt, by: step}}\n")
          .config.schedule.kind);
  CHECK(ramp.peak == 1e-3);
  CHECK(ramp.scale == RampUpSchedule::Scale::kSqrt);
  CHECK(ramp.by == RampUpSchedule::By::kStep);
}

TEST_CASE("train.precision: bf16 and bfloat16 mean the same precision") {
  for (const char* name : {"bf16", "bfloat16"}) {
    CHECK(parse(kModel + kData + "train: {epochs: 1, precision: " + name + "}\n")
              .config.train.precision == Precision::kBFloat16);
  }
}

}  // namespace
}  // namespace trainer::config
