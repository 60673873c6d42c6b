#include "train/run_dir.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <vector>

#include "base/error.h"
#include "support/model.h"

namespace trainer::train {
namespace {

void touch(const Path& path) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path) << "x";
}

}  // namespace

TEST_CASE("run folder: one with checkpoints is an error unless it is resumed or overwritten") {
  const TemporaryFolder folder;
  const Path run = folder.path() / "run";
  const config::Config config = trainer::test::build_config("{layers: [flatten, dense: 2]}");
  prepare_run_folder(run, config, Start::kFresh);
  CHECK(std::filesystem::is_empty(checkpoint_folder(run)));
  touch(run / "warnings.jsonl");  // of a session that ended before its first checkpoint
  prepare_run_folder(run, config, Start::kFresh);
  CHECK_FALSE(std::filesystem::exists(run / "warnings.jsonl"));
  write_config(run, config);
  CHECK(read_text_file(config_file(run)) == config::to_yaml(config));
  touch(checkpoint_folder(run) / "step-00000001.safetensors");
  touch(run / "metrics.csv");
  touch(run / "warnings.jsonl");
  touch(evaluator_folder(run, Split::kTest) / "metrics.csv");
  CHECK_THROWS_WITH_AS(prepare_run_folder(run, config, Start::kFresh),
                       doctest::Contains("continue it with --resume, replace it with --overwrite"),
                       ConfigError);
  prepare_run_folder(run, config, Start::kResume);
  CHECK(std::filesystem::exists(run / "metrics.csv"));
  CHECK(std::filesystem::exists(run / "warnings.jsonl"));
  touch(run / "notes.txt");
  prepare_run_folder(run, config, Start::kOverwrite);
  CHECK(std::filesystem::is_empty(checkpoint_folder(run)));
  CHECK_FALSE(std::filesystem::exists(run / "metrics.csv"));
  CHECK_FALSE(std::filesystem::exists(config_file(run)));
  CHECK_FALSE(std::filesystem::exists(run / "evaluator"));
  CHECK(std::filesystem::exists(run / "notes.txt"));  // not a run's
}

TEST_CASE("prepare_run_folder reports a folder that cannot be made as an error of files") {
  const TemporaryFolder folder;
  const config::Config config = trainer::test::build_config("{layers: [flatten, dense: 2]}");
  touch(folder.path() / "file");
  CHECK_THROWS_WITH_AS(prepare_run_folder(folder.path() / "file" / "run", config, Start::kFresh),
                       doctest::Contains("choose another folder with --run-dir"), DataError);
}

TEST_CASE("run folder: temporary files of killed writers are removed, and other files stay") {
  const TemporaryFolder folder;
  const Path run = folder.path() / "run";
  const config::Config config = trainer::test::build_config("{layers: [flatten, dense: 2]}");
  prepare_run_folder(run, config, Start::kFresh);
  for (const char* own : {"run.json", "config.yaml", "metrics.jsonl", "data_report.txt"}) {
    touch(run / concat(own, ".tmp.4711"));
  }
  touch(run / "report.html.tmp.4711");
  touch(run / "run.json");
  prepare_run_folder(run, config, Start::kResume);
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(run)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  CHECK(names == std::vector<std::string>{"checkpoints", "report.html.tmp.4711", "run.json"});
}

TEST_CASE("run folder: a config.yaml without checkpoints is an error and does not change") {
  const config::Config config = trainer::test::build_config("{layers: [flatten, dense: 2]}");
  for (const Start start : {Start::kFresh, Start::kResume, Start::kOverwrite}) {
    const TemporaryFolder folder;
    touch(folder.path() / "config.yaml");
    CHECK_THROWS_WITH_AS(prepare_run_folder(folder.path(), config, start),
                         doctest::Contains("holds a config.yaml but no checkpoints"), ConfigError);
    CHECK(read_text_file(folder.path() / "config.yaml") == "x");
  }
}

TEST_CASE("run folder: it is run.dir, or has the name of the run below runs/") {
  config::Config config = trainer::test::build_config("{layers: [flatten, dense: 2]}");
  config.name = "digits";
  CHECK(run_folder(config) == Path("runs/digits"));
  config.run.dir = "elsewhere";
  CHECK(run_folder(config) == Path("elsewhere"));
}

TEST_CASE("run folder: a link in the place of a file that training writes is an error") {
  const TemporaryFolder folder;
  const Path run = folder.path() / "run", victim = folder.path() / "victim";
  const config::Config config = trainer::test::build_config("{layers: [flatten, dense: 2]}");
  prepare_run_folder(run, config, Start::kFresh);
  touch(checkpoint_folder(run) / "step-00000001.safetensors");
  touch(run / "tensorboard" / "train" / "events");
  touch(victim);
  for (const char* name :
       {"metrics.csv", "metrics.jsonl", "ledger.csv", "run.json", "config.yaml", "data_report.txt",
        "tensorboard/train/other", "checkpoints/step-00000002.safetensors"}) {
    CAPTURE(name);
    std::filesystem::create_symlink(victim, run / name);
    CHECK_THROWS_WITH_AS(prepare_run_folder(run, config, Start::kResume),
                         doctest::Contains("is a link inside a run folder"), DataError);
    std::filesystem::remove(run / name);
    CHECK_NOTHROW(prepare_run_folder(run, config, Start::kResume));
  }
  // The run may lie on another disk as a whole.
  std::filesystem::create_symlink(run, folder.path() / "linked");
  CHECK_NOTHROW(prepare_run_folder(folder.path() / "linked", config, Start::kResume));
  std::filesystem::rename(run / "checkpoints", folder.path() / "other");
  std::filesystem::create_symlink(folder.path() / "other", run / "checkpoints");
  for (const Start start : {Start::kFresh, Start::kResume, Start::kOverwrite}) {
    CHECK_THROWS_WITH_AS(prepare_run_folder(run, config, start),
                         doctest::Contains("is a link inside a run folder"), DataError);
  }
}

TEST_CASE("run folder: one in a folder of images is an error at the first start") {
  const TemporaryFolder folder;
  const Path images = folder.path() / "images";
  touch(images / "cat" / "1.png");
  config::Config config = trainer::test::build_config("{layers: [flatten, dense: 2]}");
  config.data.format = config::DataFormat::kImageFolder;
  config.data.path = images;
  for (const Path& run : {images, images / "runs" / "a", images / "cat" / ".." / "run"}) {
    CAPTURE(run);
    CHECK_THROWS_WITH_AS(check_outside_data(run, config),
                         doctest::Contains("whose folders are classes of images"), ConfigError);
  }
  CHECK_THROWS_WITH_AS(check_outside_data(images / "features", config, "--features-dir"),
                       doctest::Contains("choose a folder elsewhere with --features-dir"),
                       ConfigError);
  CHECK_NOTHROW(check_outside_data(folder.path() / "images2", config));
  CHECK_NOTHROW(check_outside_data(folder.path() / "run", config));
  // With a folder per split, the folders beside them are not classes.
  touch(images / "train" / "cat" / "1.png");
  CHECK_NOTHROW(check_outside_data(images / "run", config));
  CHECK_THROWS_AS(check_outside_data(images / "train" / "run", config), ConfigError);
}

}  // namespace trainer::train
