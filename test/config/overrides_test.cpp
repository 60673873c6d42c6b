#include <doctest/doctest.h>

#include "config/support.h"

namespace trainer::config {
namespace {

// Texts that YAML would read as something else, or as less.
const std::vector<std::string> kAwkward{
    "exp #2", "#2",   "a: b",   "'",        "\"",     "\"a",     "a\nb", " leading", "trailing ",
    "\ta",    "[a",   "[a, b]", "{a",       "{a: b}", "*a",      "&a b", "!tag a",   "- a",
    "---",    "null", "~",      "",         "$$",     "${HOME}", "$",    "a\\n",     "%a",
    "@a",     "`a`",  "a\r\nb", "| a",      "> a",    "? a",     "a:",   ": a",      "yes",
    "1e3",    "007",  "ü日",    "\x01\x7f", "a, b",   "x-y: z",  "...",  "\xc2\x85"};

TEST_CASE("overrides: a value replaces that of the file, and the origin is the override") {
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

TEST_CASE("overrides: a key of another variant changes the variant, and common keys stay") {
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

TEST_CASE("overrides: a key inside a short form expands the short form") {
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

TEST_CASE("overrides: train.epochs and train.max_steps replace each other") {
  const Config steps = parse(kSmall, {set("train.max_steps", "5")}).config;
  CHECK(steps.train.max_steps == 5);
  CHECK(!steps.train.epochs.has_value());
  const Config epochs =
      parse(kModel + kData + "train: {max_steps: 9}\n", {{"train.epochs", "2", "--epochs"}}).config;
  CHECK(epochs.train.epochs == 2.0);
  CHECK(!epochs.train.max_steps.has_value());
}

TEST_CASE("overrides: a key that the file lacks is added, and null removes a key") {
  const Config config =
      parse(kModel + kData, {set("train.epochs", "1"), set("name", "given")}).config;
  CHECK(config.name == "given");
  CHECK(config.train.epochs == 1.0);
  CHECK(!parse(kModel + "data: {format: digits, path: d, limit: 5}\n" + kTrain,
               {set("data.limit", "null")})
             .config.data.limit.has_value());
}

TEST_CASE("overrides: a wrong value in the file is replaced without an error") {
  CHECK(mistakes(kModel + kData + "train: {epochs: 1, batch_size: many}\n",
                 {set("train.batch_size", "4")})
            .empty());
  CHECK(mistakes(kModel + "data: {format: digits, path: \"${UNSET}\"}\n" + kTrain,
                 {set("data.path", "d")})
            .empty());
}

TEST_CASE("overrides: errors name the flag as it was typed") {
  CHECK(mistakes(kSmall, {{"train.batch_size", "0", "--batch-size"}}) ==
        "--batch-size: error: train.batch_size: must be at least 1; found '0'");
  const std::string message = mistakes(kSmall, {set("optimiser.adam", "")});
  CHECK(message.starts_with(
      "--set optimiser.adam: error: unknown key 'optimiser', did you mean 'optimizer'?"));
}

TEST_CASE("overrides: a value with an environment variable is replaced") {
  CHECK(parse(kSmall, {set("data.path", "${DIR}/x")}, {{"DIR", "/y"}}).config.data.path == "/y/x");
}

TEST_CASE("overrides: a change of one use of an anchor keeps the values of the other uses") {
  const auto layers = parse("model: {layers: [dense: &d {units: 4}, dense: *d]}\n" + kData + kTrain,
                            {set("model.layers[1].dense.units", "5")})
                          .config.model.layers;
  CHECK(std::get<DenseLayer>(layers[0].kind).units == 4);
  CHECK(std::get<DenseLayer>(layers[1].kind).units == 5);
}

TEST_CASE("overrides: a text from a flag is taken byte by byte") {
  for (const std::string& text : kAwkward) {
    CAPTURE(text);
    const Config config = parse(kSmall, {{"run.dir", text, "--run-dir"}}, {{"HOME", "/x"}}).config;
    CHECK(config.run.dir == text);
    CHECK(leaves(config).size() == leaves(parse(kSmall).config).size());
  }
}

TEST_CASE("overrides: numbers and words from a flag keep their types") {
  const Config config = parse(kSmall, {{"train.epochs", "3", "--epochs"},
                                       {"seed", "12", "--seed"},
                                       {"parallel.device", "cpu", "$DEVICE"},
                                       {"optimizer.sgd.learning_rate", "1e-3", "--x"}})
                            .config;
  CHECK(config.train.epochs == 3.0);
  CHECK(config.seed == 12);
  CHECK(std::get<Sgd>(config.optimizer.kind).learning_rate == 1e-3);
  CHECK(mistakes(kSmall, {{"train.epochs", "3 # more", "--epochs"}}).find("'3 # more'") !=
        std::string::npos);
  CHECK(mistakes(kSmall, {{"train.epochs", "[3]", "--epochs"}}).find("'[3]'") != std::string::npos);
}

TEST_CASE("to_setting: an override of a flag has the same value through --set") {
  for (const std::string& text : kAwkward) {
    CAPTURE(text);
    const std::string setting = to_setting({"run.dir", text, "--run-dir"});
    REQUIRE(setting.starts_with("run.dir="));
    CHECK(parse(kSmall, {set("run.dir", setting.substr(8))}, {{"HOME", "/x"}}).config.run.dir ==
          text);
  }
  CHECK(to_setting({"seed", "12", "--seed"}) == "seed=12");
  CHECK(to_setting({"optimizer.sgd.learning_rate", "1e-3", "--x"}) ==
        "optimizer.sgd.learning_rate=1e-3");
  CHECK(to_setting(set("model.input", "[2, 2, 1]")) == "model.input=[2, 2, 1]");
  CHECK(to_setting(set("name", "${NAME}")) == "name=${NAME}");
}

TEST_CASE("--set: the error of a text of which YAML drops a part shows the quotes") {
  const auto wrong = [](const std::string& value) {
    return mistakes(kSmall, {set("run.dir", value)});
  };
  CHECK(wrong("exp #2") ==
        "--set run.dir: error: YAML reads 'exp #2' as 'exp'; write it in quotes: \"exp #2\"");
  CHECK(wrong("# x") ==
        "--set run.dir: error: YAML reads '# x' as nothing; write it in quotes: \"# x\"");
  CHECK(wrong("a\nb").find("as 'a b'") != std::string::npos);
  CHECK(wrong("&a b").find("as 'b'") != std::string::npos);
  CHECK(wrong("|") ==
        "--set run.dir: error: YAML reads '|' as the quoted text ''; write it in quotes: \"|\"");
  for (const char* value : {">", "|-", ">+", "'", "\"", "|\n  a"}) {
    CHECK(wrong(value).find("write it in quotes: ") != std::string::npos);
  }
  for (const char* value : {"\"exp #2\"", "'exp #2'", "exp#2", " exp "}) {
    CHECK(wrong(value).empty());
  }
  for (const char* value : {"null", "~", ""}) {
    CHECK(mistakes(kSmall, {set("data.limit", value)}).empty());
  }
  CHECK(parse(kSmall, {set("run.dir", "'exp #2'")}).config.run.dir == "exp #2");
  CHECK(parse(kSmall, {set("run.dir", "'|'")}).config.run.dir == "|");
  CHECK(parse(kSmall, {set("run.dir", "\"a: b\"")}).config.run.dir == "a: b");
}

}  // namespace
}  // namespace trainer::config
