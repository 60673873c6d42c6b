// The config that a checkpoint or a run folder records: less may be done with it than with a config
// that the user names.
#include <doctest/doctest.h>

#include <fstream>

#include "base/files/files.h"
#include "config/support.h"
#include "support/contains.h"

namespace trainer::config {
namespace {

using test::contains;

std::string mistakes_of_recorded(const std::string& text, const std::string& file = "a:config",
                                 const Environment& environment = {}) {
  try {
    parse_recorded_config(text, file, {}, environment);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST_CASE("parse_recorded_config reads a written config to the same values and read-only folders") {
  for (const std::string& text : {kSmall, rich_config()}) {
    const Config config = parse(text).config;
    const Config again = parse_recorded_config(to_yaml(config), "a:config").config;
    CHECK(leaves(again) == leaves(config));
    CHECK(config.data.folders == FolderAccess::kReadWrite);
    CHECK(again.data.folders == FolderAccess::kReadOnly);
  }
}

TEST_CASE("parse_recorded_config reads a collective of earlier versions as auto, with a notice") {
  const auto text = [](const std::string& word) {
    return kSmall + "parallel: {collective: " + word + "}\n";
  };
  for (const std::string word : {"tree", "bcube", "halving_doubling"}) {
    const LoadedConfig loaded = parse_recorded_config(text(word), "a:config");
    CHECK(loaded.config.parallel.collective == Collective::kAuto);
    CHECK(loaded.notice.find("parallel.collective is " + word +
                             " in this run, which this version "
                             "reads as auto") == 0);
    CHECK_THROWS_AS(parse(text(word)), ConfigError);
  }
  const LoadedConfig ring = parse_recorded_config(text("ring"), "a:config");
  CHECK(ring.config.parallel.collective == Collective::kRing);
  CHECK(ring.notice.empty());
}

TEST_CASE("parse_recorded_config opens no port and writes no file for run.prometheus") {
  const std::string text = kSmall + "run: {prometheus: 'a.prom'}\n";
  CHECK(parse(text).config.run.prometheus == "a.prom");
  CHECK(parse_recorded_config(text, "a:config").config.run.prometheus.empty());
  const Override own{"run.prometheus", ":9400", "--set"};
  CHECK(parse_recorded_config(text, "a:config", {own}).config.run.prometheus == ":9400");
}

TEST_CASE("parse_recorded_config uses no server for run.mlflow") {
  const std::string text = kSmall + "run: {mlflow: 'http://localhost:5000'}\n";
  CHECK(parse(text).config.run.mlflow == "http://localhost:5000");
  CHECK(parse_recorded_config(text, "a:config").config.run.mlflow.empty());
  const Override own{"run.mlflow", "http://localhost:6000", "--set"};
  CHECK(parse_recorded_config(text, "a:config", {own}).config.run.mlflow ==
        "http://localhost:6000");
}

TEST_CASE("parse_recorded_config rejects extends and opens no file") {
  const TemporaryFolder folder;
  const Path secret = folder.path() / "secret.yaml";
  std::ofstream(secret) << "password: [hunter2\n";
  for (const std::string& file : {secret.string(), std::string("secret.yaml")}) {
    const std::string text = "extends: " + file + "\n" + kSmall;
    const std::string found = mistakes_of_recorded(text, (folder.path() / "config.yaml").string());
    CHECK(contains(found,
                   "config.yaml:1:1: error: extends: the config that a file records cannot read"));
    CHECK_FALSE(contains(found, "hunter2"));
    CHECK_FALSE(contains(found, "password"));
  }
}

TEST_CASE("parse_recorded_config rejects a variable without its value in the message") {
  const Environment environment{{"TOKEN", "hunter2"}};
  for (const char* name : {"${TOKEN}", "${TOKEN:-x}", "a${OTHER:-${TOKEN}}"}) {
    CAPTURE(name);
    const std::string found =
        mistakes_of_recorded(concat("name: \"", name, "\"\n", kSmall), "a:config", environment);
    CHECK(contains(found, "cannot read the environment"));
    CHECK_FALSE(contains(found, "hunter2"));
  }
  CHECK(
      parse_recorded_config("name: \"a$$TOKEN$${TOKEN}$\"\n" + kSmall, "a:config", {}, environment)
          .config.name == "a$TOKEN${TOKEN}$");
}

TEST_CASE("parse_recorded_config: overrides of the user may have variables") {
  const LoadedConfig loaded = parse_recorded_config(
      kSmall, "a:config", {set("data.path", "${DIR}"), {"seed", "7", "--seed"}},
      {{"DIR", "/data"}});
  CHECK(loaded.config.data.path == "/data");
  CHECK(loaded.config.seed == 7);
  CHECK(loaded.config.data.folders == FolderAccess::kReadOnly);
}

TEST_CASE("parse_recorded_config does not search this machine for weights: imagenet") {
  const TemporaryFolder folder;
  std::ofstream(folder.path() / "vgg16_weights_tf_dim_ordering_tf_kernels_notop.h5") << "x";
  const std::string text =
      "model: {backbone: {name: vgg16, weights: imagenet}, head: [flatten, dense: 2]}\n"
      "data: {format: image_folder, path: p}\ntrain: {epochs: 1}\n";
  const Environment environment{{"WEIGHTS_DIR", folder.path()}};
  CHECK(parse(text, {}, environment).config.model.backbone->weights != "imagenet");
  CHECK(parse_recorded_config(text, "a:config", {}, environment).config.model.backbone->weights ==
        "imagenet");
}

}  // namespace
}  // namespace trainer::config
