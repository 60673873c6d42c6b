#include <doctest/doctest.h>

#include "config/support.h"

namespace trainer::config {
namespace {

std::string load_path(const std::string& path, const Environment& environment) {
  return parse(kModel + kTrain + "data: {format: digits, path: " + path + "}\n", {}, environment)
      .config.data.path;
}

TEST_CASE("environment variables are replaced in plain and quoted texts") {
  CHECK(load_path("\"${DIR}/mnist\"", {{"DIR", "/data"}}) == "/data/mnist");
  CHECK(load_path("\"${DIR:-datasets}/${SET:-mnist}\"", {{"SET", "fashion"}}) ==
        "datasets/fashion");
  CHECK(load_path("'${DIR:-a b: c}'", {}) == "a b: c");
  CHECK(load_path("'${DIR:-default}'", {{"DIR", ""}}) == "default");
  CHECK(load_path("\"$$HOME/$${X}/$1\"", {}) == "$HOME/${X}/$1");
  CHECK(parse("name: ${RUN}-x\n" + kSmall, {}, {{"RUN", "r"}}).config.name == "r-x");
}

TEST_CASE(
    "environment variables: names have letters, digits and underscores, and others are an error") {
  for (const char* name : {"a", "z", "A", "Z", "_", "a0", "Z9", "_a_Z_"}) {
    CHECK(load_path(concat("\"${", name, "}\""), {{name, "x"}}) == "x");
  }
  for (const char* name : {"", "0", "9a", "a-b", "a b", "a@", "a[", "a`", "a/", "a:"}) {
    const std::string text =
        concat(kModel, kTrain, "data: {format: digits, path: \"${", name, "}\"}\n");
    CHECK(mistakes(text).find("is not ${NAME}") != std::string::npos);
  }
}

TEST_CASE("environment variables: the replaced text is parsed as the type of its key") {
  const std::string text = kModel + kData +
                           "train: {epochs: \"${EPOCHS:-5}\", batch_size: \"${BATCH}\"}\n"
                           "optimizer: ${OPTIMIZER:-sgd}\n"
                           "run: {tensorboard: \"${BOARD}\"}\n";
  const LoadedConfig loaded = parse(text, {}, {{"BATCH", "16"}, {"BOARD", "false"}});
  CHECK(loaded.config.train.epochs == 5.0);
  CHECK(loaded.config.train.batch_size == 16);
  CHECK(!loaded.config.run.tensorboard);
  CHECK(std::holds_alternative<Sgd>(loaded.config.optimizer.kind));
}

TEST_CASE("environment variables: an empty text for an optional key means no value") {
  const std::string text = kModel + kTrain + "data: {format: digits, path: d, limit: \"${N:-}\"}\n";
  CHECK(!parse(text).config.data.limit.has_value());
  CHECK(parse(text, {}, {{"N", "3"}}).config.data.limit == 3);
}

TEST_CASE("environment variables: the origin of a key is the variable that was used") {
  const LoadedConfig loaded =
      parse(kModel + kTrain + "data: {format: digits, path: \"${DIR:-x}\", limit: \"${N:-3}\"}\n",
            {}, {{"DIR", "/data"}});
  CHECK(loaded.origins.at("data.path").kind == Origin::Kind::kEnvironment);
  CHECK(loaded.origins.at("data.path").detail == "DIR");
  CHECK(loaded.origins.at("data.limit").kind == Origin::Kind::kFile);
}

TEST_CASE("environment variables: a variable that is not set is one error at its place") {
  CHECK(mistakes(kModel + kTrain + "data: {format: digits, path: \"${DIR}\"}\n") ==
        "x.yaml:3:30: error: the environment variable DIR is not set; set it, or write "
        "${DIR:-default}");
}

TEST_CASE("environment variables: any value for a text is taken byte by byte") {
  for (const std::string value :
       {"exp #2", "#2", "a: b", "'", "\"", "a\nb", " leading", "trailing ", "[a", "{a: b}", "*a",
        "!tag a", "${HOME}", "$$", "null", "~", "a, b: c", "- a"}) {
    CAPTURE(value);
    for (const char* written : {"${DIR}", "\"${DIR}\"", "'${DIR}'"}) {
      // Within braces a variable stands in quotes.
      if (*written == '$') {
        const Config block =
            parse(kSmall + "run:\n  dir: " + written + "\n", {}, {{"DIR", value}}).config;
        CHECK(block.run.dir == value);
        CHECK(block.run.keep == 2);
      } else {
        CHECK(load_path(written, {{"DIR", value}}) == value);
      }
    }
  }
}

}  // namespace
}  // namespace trainer::config
