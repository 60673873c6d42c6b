// A small transfer learning: a folder of pictures and a config with a frozen backbone.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "program.h"

namespace trainer::e2e {

// Small pictures whose colour is that of the class, each with noise of its own.
inline void write_images(const Path& folder, int count, unsigned seed) {
  std::mt19937 random(seed);
  for (const char* name : {"left", "right"}) {
    std::filesystem::create_directories(folder / name);
    for (int i = 0; i < count; ++i) {
      std::ofstream file(folder / name / concat(i, ".ppm"), std::ios::binary);
      file << "P6 36 40 255\n";
      for (int byte = 0; byte < 36 * 40 * 3; ++byte) {
        const unsigned base = (byte % 3 == 0) == (name[0] == 'l') ? 90 : 60;
        file.put(static_cast<char>(base + random() % 100));
      }
    }
  }
}

struct Pictures {
  Workspace work;
  std::string config;

  explicit Pictures(const std::string& freeze = "freeze: all", const std::string& train = "") {
    write_images(work / "train", 17, 1);
    write_images(work / "validation", 7, 2);
    config = work.config(concat(R"(
model:
  input: [32, 32, 3]
  backbone: {name: mobilenet_v2, alpha: 0.35, )",
                                freeze, R"(}
  head: [global_average_pool, {dense: {units: 8, activation: relu}}, {dropout: 0.3}, {dense: 2}]
data:
  format: image_folder
  classes: [left, right]
  train: {path: )",
                                (work / "train").string(), train, R"(}
  validation: {path: )",
                                (work / "validation").string(), R"(}
  preprocess: tf
optimizer: {adam: {learning_rate: 1.0e-3}}
train: {epochs: 4, batch_size: 8}
run: {checkpoint_every: 2 steps, log_every: 1 steps, summary_every: 1 steps}
)"));
  }

  Arguments train(const std::string& dir, const std::string& cache, Arguments more = {}) const {
    Arguments arguments{"train",
                        config,
                        "--json",
                        "--run-dir",
                        work / dir,
                        "--set",
                        "train.cache_features=" + cache};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
  Json finished(const std::string& dir, const std::string& cache,
                const Arguments& more = {}) const {
    const Result result = run(train(dir, cache, more));
    INFO(result.err);
    REQUIRE(result.code == 0);
    return result.event("finished");
  }
  // The files of kept features of a run, by name.
  std::vector<Path> files(const std::string& dir) const {
    std::vector<Path> files;
    for (const auto& entry : std::filesystem::directory_iterator(work / dir / "features")) {
      files.push_back(entry.path());
    }
    std::sort(files.begin(), files.end());
    return files;
  }
};

// Compares two "finished" events.
inline void check_same(const Json& one, const Json& other) {
  CHECK(one.at("parameters_sha256") == other.at("parameters_sha256"));
  CHECK(one.at("metrics") == other.at("metrics"));
  CHECK(one.at("steps") == other.at("steps"));
}

}  // namespace trainer::e2e
