#include <doctest/doctest.h>
#include <sys/stat.h>

#include <fstream>
#include <thread>

#include "base/files/files.h"
#include "config/support.h"

namespace trainer::config {
namespace {

TEST_CASE("parse_config gives sections and layers their lines and columns") {
  const Config config = parse(
                            "name: n\n"
                            "model:\n"
                            "  layers:\n"
                            "    - flatten\n"
                            "    - dense: {units: 3}\n" +
                            kData + kTrain)
                            .config;
  CHECK(to_string(config.model.loc) == "x.yaml:2:1");
  CHECK(to_string(config.model.layers[0].loc) == "x.yaml:4:7");
  CHECK(to_string(config.model.layers[1].loc) == "x.yaml:5:7");
  CHECK(to_string(config.data.loc) == "x.yaml:6:1");
  CHECK(to_string(config.train.loc) == "x.yaml:7:1");
}

TEST_CASE("parse_config takes the name that is given, or that of the file") {
  CHECK(parse_config(kSmall, "some/where/run_7.yaml", {}, {}).config.name == "run_7");
  CHECK(parse_config("name: a\n" + kSmall, "b.yaml", {}, {}).config.name == "a");
}

TEST_CASE("parse_config uses the defaults for empty sections") {
  const Config config =
      parse(kSmall + "optimizer:\nschedule:\nparallel: {}\nevaluate:\nrun:\n").config;
  CHECK(std::holds_alternative<Adam>(config.optimizer.kind));
  CHECK(config.run.keep == 2);
  CHECK(config.evaluate.top_k == 5);
}

TEST_CASE("parse_config: the origin of a key is the place in the file or the default") {
  const LoadedConfig loaded = parse(kModel + kData + "train: {epochs: 1, batch_size: 8}\n");
  CHECK(loaded.origins.at("train.batch_size").kind == Origin::Kind::kFile);
  CHECK(to_string(loaded.origins.at("train.batch_size").loc) == "x.yaml:3:32");
  CHECK(loaded.origins.at("train.precision").kind == Origin::Kind::kDefault);
  CHECK(loaded.origins.at("model.layers[1].dense.units").kind == Origin::Kind::kFile);
  for (const auto& [path, value] : leaves(loaded.config)) {
    CAPTURE(path);
    CHECK(loaded.origins.count(path) == 1);
  }
}

TEST_CASE("parse_config: merge keys give values for keys that the map lacks") {
  const auto layers = parse(
                          "model:\n"
                          "  layers:\n"
                          "    - conv: &base {filters: 8, kernel_size: 5, activation: relu}\n"
                          "    - conv: {<<: *base, filters: 16}\n"
                          "    - conv: {<<: [{filters: 4}, *base]}\n" +
                          kData + kTrain)
                          .config.model.layers;
  const auto& second = std::get<ConvLayer>(layers[1].kind);
  CHECK(second.filters == 16);
  CHECK(second.kernel_size == Pair{5, 5});
  CHECK(second.activation == Activation::kRelu);
  CHECK(std::get<ConvLayer>(layers[2].kind).filters == 4);
  CHECK(std::get<ConvLayer>(layers[2].kind).kernel_size == Pair{5, 5});
}

TEST_CASE("parse_config: a mistake in an aliased value is an error at the alias") {
  CHECK(mistakes("model: {layers: [dense: &d {units: 1}, dense: *d]}\n" + kData +
                 "train: {epochs: 1, early_stop: &e [x]}\n"
                 "evaluate: *e\n")
            .find("x.yaml:4:11: error: evaluate: expected a map") != std::string::npos);
}

TEST_CASE("parse_config rejects aliases that multiply") {
  std::string text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 12; ++i) {
    text += concat("a", i, ": &a", i, " [");
    for (int j = 0; j < 10; ++j) text += concat(j ? ", " : "", "*a", i - 1);
    text += "]\n";
  }
  CHECK(mistakes(text).find("aliases multiply") != std::string::npos);
  CHECK(!mistakes("a: &a [*a]\n" + kSmall).empty());
  CHECK(!mistakes(std::string(100000, '[')).empty());
}

TEST_CASE("parse_config accepts a document marker, a byte order mark and DOS line ends") {
  CHECK(mistakes("---\n" + kSmall).empty());
  CHECK(mistakes("\xEF\xBB\xBF" + kSmall).empty());
  CHECK(mistakes("model: {layers: [flatten]}\r\ndata: {format: digits, path: d}\r\ntrain: {epochs: "
                 "1}\r\n")
            .empty());
}

TEST_CASE(
    "parse_config returns a config or throws a ConfigError with a place for cut and changed "
    "texts") {
  const std::string text = rich_config();
  const Environment environment{{"SET", "s"}};
  for (std::size_t i = 0; i < text.size(); i += 7) {
    std::string cut = text.substr(0, i), hole = text, other = text;
    hole.erase(i, 3);
    other[i] = "{}[]:,&*'\"#\n\t!|>%@`\xff"[i % 20];
    for (const std::string& wrong : {cut, hole, other}) {
      try {
        parse(wrong, {}, environment);
      } catch (const ConfigError& error) {
        for (const Diagnostic& diagnostic : error.diagnostics()) {
          CHECK_MESSAGE(diagnostic.loc.line > 0, diagnostic.message);
        }
      }
    }
  }
}

TEST_CASE("load_config: the error of a missing file has its path") {
  CHECK_THROWS_WITH_AS(load_config("no/such.yaml", {}, {}),
                       "no/such.yaml: error: no such file; expected a YAML config, a folder of "
                       "images or a list of images (CSV)",
                       ConfigError);
}

TEST_CASE("load_config keeps the name and relative paths of a file as written") {
  const TemporaryFolder folder;
  const std::string path = folder.path() / "tiny.yaml";
  write_file_atomic(path, kSmall);
  const LoadedConfig loaded = load_config(path, {}, {});
  CHECK(loaded.config.name == "tiny");
  CHECK(loaded.config.data.path == "d");
  CHECK(loaded.config.data.loc.file == path);
}

TEST_CASE("parse_config reads lines, keys and values of 300 KB like shorter ones") {
  const std::string text(300'000, 'a');
  CHECK(parse("name: " + text + "\n" + kSmall).config.name == text);
  CHECK(mistakes(kSmall + "run: {dir: [\n" + text + ":b\n").find("not valid YAML") !=
        std::string::npos);
  CHECK(mistakes(kSmall + "run:" + text + "\n  dir: x\n").find("'run: " + text + "'") !=
        std::string::npos);
  for (const std::string& line :
       {text + ": 1", "  - " + text + ":b", text, "run: " + std::string(300'000, ' ') + "x:y",
        "seed: " + std::string(300'000, '1'), "x-" + text + ": 1"}) {
    mistakes(kSmall + line + "\n");  // returns
    mistakes(line + "\n: [" + kSmall);
  }
}

TEST_CASE("load_config reads up to 16 MB from a pipe") {
  const TemporaryFolder folder;
  const std::string path = folder.path() / "pipe.yaml";
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  const auto load_written = [&](const std::string& text) {
    std::thread writer([&] { std::ofstream(path) << text; });
    try {
      const LoadedConfig loaded = load_config(path, {}, {});
      writer.join();
      return loaded.config.data.path;
    } catch (const ConfigError& error) {
      writer.join();
      return std::string(error.what());
    }
  };
  CHECK(load_written(kSmall) == "d");
  CHECK(load_written(kSmall + std::string(100'000, '#')) == "d");  // more than a pipe holds
  CHECK(load_written("model: 1\n").find(path + ":1:8: error: ") != std::string::npos);
  std::string most = kSmall + "#\n";
  most.resize(16 << 20, '\n');
  CHECK(load_written(most) == "d");
  CHECK(load_written(most + '\n').find("more than 16 MB came through") != std::string::npos);
}

}  // namespace
}  // namespace trainer::config
