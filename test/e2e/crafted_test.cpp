// Checkpoints and run folders that somebody has crafted: what their configs ask for is not done.
#include <doctest/doctest.h>

#include <fstream>
#include <set>

#include "base/error.h"
#include "checkpoint/safetensors.h"
#include "program.h"
#include "support/contains.h"
#include "support/loopback_server.h"

namespace trainer::e2e {
namespace {

using test::contains;
namespace fs = std::filesystem;

std::set<std::string> files_below(const Path& folder) {
  std::set<std::string> found;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) found.insert(entry.path());
  return found;
}

std::string replace_once(std::string text, const std::string& part, const std::string& by) {
  const std::size_t at = text.find(part);
  REQUIRE_MESSAGE(at != std::string::npos, part << " is not in\n" << text);
  return text.replace(at, part.size(), by);
}

// A run of two steps, whose config can be replaced.
struct Crafted {
  Workspace work;
  Path run_folder = work / "run", image = work / "image.pgm";
  std::string config;  // as the run has recorded it

  Crafted() {
    const std::string own = work.config(
        concat(kModel, "data: {format: idx, path: ", work.data(),
               "}\noptimizer: {sgd: {learning_rate: 0.02}}\ntrain: {max_steps: 2, batch_size: 16}\n"
               "run: {tensorboard: false}\n"));
    const Result result = run({"train", own, "--run-dir", run_folder, "--quiet"});
    REQUIRE_MESSAGE(result.code == 0, result.err);
    config = read_text_file(run_folder / "config.yaml");
    std::ofstream(image) << "P5 28 28 255\n" << std::string(784, 'x');
  }

  Path checkpoint() const { return run_folder / "checkpoints" / "step-00000002.safetensors"; }

  void set_config(const std::string& text) const {
    checkpoint::TensorFile file = checkpoint::read_checkpoint(checkpoint());
    file.metadata["config"] = text;
    checkpoint::write_safetensors(checkpoint(), file.tensors, file.metadata);
    fs::remove(run_folder / "checkpoints" / "best.safetensors");
    std::ofstream(run_folder / "config.yaml") << text;
  }

  // All commands that open a run, with their outputs in a folder of the user's.
  std::vector<Arguments> commands() const {
    const std::string run = run_folder, out = work / "out";
    return {{"evaluate", run},
            {"evaluate", checkpoint()},
            {"evaluate", run, "--split", "train"},
            {"evaluate", run, "--average", "1"},
            {"evaluate", run, "--follow", "--start-delay", "0", "--timeout", "1"},
            {"predict", run, image},
            {"predict", run, "--split", "test"},
            {"export", run, "--format", "onnx", "--output", out + "/a.onnx", "--overwrite"},
            {"export", run, "--format", "keras_h5", "--output", out + "/a.h5", "--overwrite"},
            {"report", run, "--output", out + "/a.html", "--overwrite"},
            {"compare", run, run},
            {"diff", run, run},
            {"plan", run},
            {"data", run},
            {"benchmark", run, "--seconds", "0.1"},
            {"new", run, "--output", out + "/a.yaml", "--overwrite"},
            {"sweep", run, "--over", "seed=1,2"},
            {"crossval", run, "--folds", "2"},
            {"train", run, "--resume"}};
  }

  // Runs all commands; `secret` is in none of their outputs, and no file appears but those that the
  // command line names.
  void check_harmless(const std::string& secret, const Environment& environment) const {
    fs::create_directories(work / "out");
    const std::set<std::string> before = files_below(work / "");
    for (const Arguments& command : commands()) {
      INFO(command[0], " ", command[1], " ", command.size() > 2 ? command[2] : "");
      const Result result = run(command, environment);
      INFO(result.err);
      CHECK(result.code >= 0);
      CHECK_FALSE(contains(result.out + result.err, secret));
      for (const std::string& path : files_below(work / "")) {
        const bool is_named = path.starts_with((work / "out").string()) ||
                              path.starts_with((run_folder / "evaluator").string()) ||
                              path.starts_with((run_folder / "report").string()) ||
                              (command[0] == "train" && path.starts_with(run_folder.string()));
        const bool is_lock = path == run_folder / "lock";
        CHECK_MESSAGE((is_named || is_lock || before.contains(path)), path << " was written");
        if (is_named && fs::is_regular_file(path)) {
          CHECK_FALSE(contains(read_text_file(path), secret));
        }
      }
    }
  }
};

}  // namespace

TEST_CASE("commands on a crafted run: format: digits writes no file in the folder that it names") {
  const Crafted crafted;
  const std::string victim = crafted.work / "victim";
  crafted.set_config(replace_once(replace_once(crafted.config, "format: idx", "format: digits"),
                                  "path: " + crafted.work.data(), "path: " + victim));
  crafted.check_harmless("hunter2", {});
  CHECK_FALSE(fs::exists(victim));
  // Digits that are not there are drawn in memory.
  CHECK(run({"evaluate", crafted.run_folder}).code == 0);
  CHECK_FALSE(fs::exists(victim));
  // A folder that has them is read.
  crafted.set_config(replace_once(crafted.config, "format: idx", "format: digits"));
  CHECK(run({"evaluate", crafted.run_folder}).code == 0);
}

TEST_CASE(
    "commands on a crafted run: caches of images write no file in the folder that they name") {
  const Crafted crafted;
  const std::string victim = crafted.work / "victim";
  const Path images = crafted.work / "images";
  for (int label = 0; label < 10; ++label) {
    const Path folder = images / std::to_string(label);
    fs::create_directories(folder);
    for (int i = 0; i < 2; ++i) fs::copy_file(crafted.image, folder / concat(i, ".pgm"));
  }
  // Known readable files are kept only once they are some seconds old.
  for (const auto& entry : fs::recursive_directory_iterator(images)) {
    fs::last_write_time(entry.path(), fs::file_time_type::clock::now() - std::chrono::minutes(5));
  }
  const auto with = [&](const std::string& more) {
    const std::size_t begin = crafted.config.find("\ndata:\n") + 1;
    const std::size_t end = crafted.config.find("\noptimizer:", begin) + 1;
    std::string text = crafted.config;
    return text.replace(begin, end - begin,
                        concat("data: {format: image_folder, channels: 1, resize: [28, 28], ",
                               "train: {path: ", images.string(), "}, test: {path: ",
                               images.string(), "}, cache_dir: ", victim, ", ", more, "}\n"));
  };
  for (const char* more : {"cache: disk", "on_error: skip", "cache: disk, on_error: skip"}) {
    CAPTURE(more);
    crafted.set_config(with(more));
    crafted.check_harmless("hunter2", {});
    CHECK_FALSE(fs::exists(victim));
    CHECK(run({"evaluate", crafted.run_folder}).code == 0);
  }
}

TEST_CASE("commands on a crafted run: only data below a base folder is read") {
  const Crafted crafted;
  const Path secrets = crafted.work / "secrets", record = crafted.run_folder / "run.json";
  fs::create_directories(secrets / "inner");
  std::ofstream(secrets / "inner/t10k-images-idx3-ubyte") << "hunter2\n";
  std::ofstream(secrets / "inner/train-images-idx3-ubyte") << "hunter2\n";
  std::ofstream(secrets / "config.yaml") << "hunter2: hunter2\n";
  fs::create_symlink(secrets, crafted.run_folder / "link");
  const Json own = Json::parse(read_text_file(record));
  const auto set_base = [&](const Json& base) {
    Json changed = own;
    changed["base"] = base;
    std::ofstream(record) << changed;
    checkpoint::TensorFile file = checkpoint::read_checkpoint(crafted.checkpoint());
    file.metadata["base"] = base.is_string() ? base.get<std::string>() : "";
    checkpoint::write_safetensors(crafted.checkpoint(), file.tensors, file.metadata);
  };
  crafted.set_config(replace_once(crafted.config, "path: " + crafted.work.data(), "path: inner"));
  for (const char* base : {"../secrets", "link", "link/../link"}) {
    CAPTURE(base);
    set_base(base);
    crafted.check_harmless("hunter2", {});
    CHECK(run({"evaluate", crafted.run_folder}).code == 3);
  }
  for (const Json& base :
       {Json(secrets.string()), Json(""), Json(std::string(5000, 'x')), Json("a\nb"),
        Json(std::string("../secrets\0", 11)), Json(7), Json({"../secrets"}), Json(nullptr)}) {
    CAPTURE(base);
    set_base(base);
    for (const char* command : {"evaluate", "data"}) {
      const Result result = run({command, crafted.run_folder});
      CHECK(result.code == 3);
      CHECK_FALSE(contains(result.err, "hunter2"));
    }
  }
  // An absolute folder is not followed, and a relative one is.
  crafted.set_config(replace_once(crafted.config, "path: " + crafted.work.data(),
                                  "path: " + Path(crafted.work.data()).filename().string()));
  const Path folder = Path(crafted.work.data()).parent_path();
  set_base(folder.string());
  CHECK(run({"evaluate", crafted.run_folder}).code == 3);
  set_base(fs::relative(folder, crafted.run_folder).string());
  for (const char* command : {"evaluate", "data"}) {
    const Result found = run({command, crafted.run_folder});
    INFO(found.err);
    CHECK(found.code == 0);
  }
}

TEST_CASE("commands on a crafted run: extends prints no part of another file") {
  const Crafted crafted;
  const Path secret = crafted.work / "secret.yaml";
  for (const char* content : {"hunter2: hunter2\n", "[hunter2\n", "name: hunter2\n"}) {
    std::ofstream(secret) << content;
    crafted.set_config(concat("extends: ", secret.string(), "\n", crafted.config));
    crafted.check_harmless("hunter2", {});
  }
  const Result result = run({"evaluate", crafted.run_folder});
  CHECK(result.code == 2);
  CHECK(contains(result.err, "extends: the config that a file records cannot read other files"));
}

TEST_CASE("commands on a crafted run: no value of variables is in outputs or exports") {
  const Crafted crafted;
  crafted.set_config(replace_once(crafted.config, "name: small", "name: \"${TOKEN}\""));
  crafted.check_harmless("hunter2", {{"TOKEN", "hunter2"}});
  const Result result = run({"evaluate", crafted.run_folder}, {{"TOKEN", "hunter2"}});
  CHECK(result.code == 2);
  CHECK(contains(result.err, "cannot read the environment"));
}

TEST_CASE("commands on a crafted run: run.mlflow sends no request to the server that it names") {
  const Crafted crafted;
  const Path log = crafted.work / "log";  // appears with the first request
  const test::LoopbackServer server("test/hooks/mlflow_server.py", {log});
  const std::string url = server.url() + "/good";
  const Environment environment{{"MLFLOW_TRACKING_TOKEN", "hunter2"}};
  crafted.set_config(replace_once(crafted.config, "mlflow: \"\"", "mlflow: " + url));
  crafted.check_harmless("hunter2", environment);
  const std::string own = crafted.work / "config.yaml";
  const Arguments resume{"train", own, "--run-dir", crafted.run_folder, "--resume", "--quiet"};
  CHECK(run(resume, environment).code == 0);
  CHECK_FALSE(fs::exists(log));
  // The server receives runs of the user's own config.
  CHECK(run({"train", own, "--run-dir", crafted.work / "own", "--set", "run.mlflow=" + url},
            environment)
            .code == 0);
  CHECK(contains(read_text_file(log), "FINISHED"));
}

TEST_CASE(
    "train --resume: the config of a crafted run reveals no file or variable and writes nothing") {
  const Crafted crafted;
  const std::string own = crafted.work / "config.yaml", victim = crafted.work / "victim";
  const Path secret = crafted.work / "secret.yaml";
  std::ofstream(secret) << "hunter2: hunter2\n";
  for (const std::string& text :
       {concat("extends: ", secret.string(), "\n", crafted.config),
        replace_once(crafted.config, "name: small", "name: \"${TOKEN}\""),
        replace_once(replace_once(crafted.config, "format: idx", "format: digits"),
                     "path: " + crafted.work.data(), "path: " + victim)}) {
    crafted.set_config(text);
    const Result result =
        run({"train", own, "--run-dir", crafted.run_folder, "--resume", "--quiet"},
            {{"TOKEN", "hunter2"}});
    CHECK_FALSE(contains(result.out + result.err, "hunter2"));
    CHECK_FALSE(fs::exists(victim));
  }
}

TEST_CASE("train: no other run is touched for a folder and a name with '#', ': ' and quotes") {
  const Workspace work;
  const std::string config = work.config(
      concat(kModel, "data: {format: idx, path: ", work.data(),
             "}\noptimizer: {sgd: {learning_rate: 0.02}}\ntrain: {max_steps: 1, batch_size: 16}\n"
             "run: {tensorboard: false}\n"));
  const std::string exp = work / "exp";
  REQUIRE(run({"train", config, "--run-dir", exp, "--quiet"}).code == 0);
  const std::string before = read_text_file(Path(exp) / "run.json");
  for (const char* end : {" #2", ": 2", " 'a'", "\"", "\nb", " ", ", b", "]", "${HOME}", "$$"}) {
    const std::string folder = exp + end;
    CAPTURE(folder);
    for (int i = 0; i < 2; ++i) {
      const Result result = run({"train", config, "--run-dir", folder, "--overwrite", "--quiet"});
      REQUIRE_MESSAGE(result.code == 0, result.err);
    }
    CHECK(fs::exists(Path(folder) / "run.json"));
    CHECK(read_text_file(Path(exp) / "run.json") == before);
    // What was recorded names the same folder.
    CHECK(run({"train", config, "--run-dir", folder, "--resume", "--quiet"}).code == 0);
    CHECK(run({"evaluate", folder, "--quiet"}).code == 0);
  }
  // --set is YAML, in which " #2" is a comment: an error, not another folder.
  const Result result = run({"train", config, "--set", "run.dir=" + exp + " #2", "--overwrite"});
  CHECK(result.code == 2);
  CHECK(contains(result.err, "write it in quotes"));
  CHECK(read_text_file(Path(exp) / "run.json") == before);
}

TEST_CASE("sweep: each point has a run for a config whose name has '#'") {
  const Workspace work;
  const Path config = work / "my exp #3: a.yaml";
  std::ofstream(config) << kModel << "data: {format: idx, path: " << work.data()
                        << "}\noptimizer: {sgd: {learning_rate: 0.02}}\n"
                           "train: {max_steps: 1, batch_size: 16}\nrun: {tensorboard: false}\n";
  for (const Path& folder : {work / "my exp #3_sweep", work / " a: 'b'"}) {
    const Result result =
        run({"sweep", config, "--dir", folder, "--over", "train.batch_size=8,16", "--quiet"});
    REQUIRE_MESSAGE(result.code == 0, result.err);
    CHECK(fs::exists(folder / "batch_size=8" / "run.json"));
    CHECK(fs::exists(folder / "batch_size=16" / "run.json"));
    CHECK(Json::parse(read_text_file(folder / "batch_size=8" / "run.json"))["name"] ==
          "my exp #3: a");
  }
  CHECK_FALSE(fs::exists(work / "my exp"));
}

TEST_CASE("commands on a crafted run: nothing is written through links in the run folder") {
  const Crafted crafted;
  const Path victim = crafted.work / "victim", &folder = crafted.run_folder;
  const std::pair<const char*, Arguments> cases[] = {
      {"report.html", {"report", folder}},
      {"plots", {"report", folder}},
      {"evaluator", {"evaluate", folder, "--follow", "--start-delay", "0", "--timeout", "1"}},
      {"lock", {"train", folder / "config.yaml", "--run-dir", folder, "--resume"}},
      {"metrics.csv", {"train", folder / "config.yaml", "--run-dir", folder, "--resume"}},
      {"run.json", {"train", folder / "config.yaml", "--run-dir", folder, "--resume"}}};
  for (const auto& [name, command] : cases) {
    CAPTURE(name);
    fs::remove_all(folder / name);
    std::ofstream(victim) << "kept";
    fs::create_symlink(victim, folder / name);
    const Result result = run(command);
    CHECK(result.code == 3);
    CHECK(contains(result.err, "is a link"));
    CHECK(read_text_file(victim) == "kept");
    fs::remove(folder / name);
  }
}

}  // namespace trainer::e2e
