// Features of frozen layers that are kept change nothing but the time.
#include <doctest/doctest.h>
#include <signal.h>

#include <fstream>
#include <random>

#include "base/error.h"
#include "pictures.h"

namespace trainer::e2e {
namespace {

std::string content(const Path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

// 34 images in batches of 8: what an image is computed with, and with how many, differs from epoch
// to epoch.
TEST_CASE("a run with kept features has the bits of one without") {
  for (const char* freeze : {"freeze: all", "freeze: '[:-20]'"}) {
    for (const char* precision : {"float32", "bfloat16"}) {
      CAPTURE(freeze);
      CAPTURE(precision);
      const Pictures pictures(freeze);
      const Arguments set{"--set", concat("train.precision=", precision)};
      const Result off = run(pictures.train("off", "off", set));
      if (off.err.find("not supported by this device") != std::string::npos) continue;
      REQUIRE(off.code == 0);
      const Json reference = off.event("finished");
      check_same(reference, pictures.finished("memory", "memory", set));
      check_same(reference, pictures.finished("disk", "disk", set));
      CHECK(pictures.files("disk").size() == 2);
      CHECK_FALSE(std::filesystem::exists(pictures.work / "memory" / "features"));
    }
  }
}

TEST_CASE("files of features serve later runs, unless they are damaged or of other weights") {
  const Pictures pictures;
  const Json reference = pictures.finished("off", "off");
  pictures.finished("run", "disk");
  const std::vector<Path> files = pictures.files("run");
  REQUIRE(files.size() == 2);
  const std::string good = content(files[0]);
  const auto written = std::filesystem::last_write_time(files[0]);

  SUBCASE("used again as they are") {
    check_same(reference, pictures.finished("run", "disk", {"--overwrite"}));
    CHECK(std::filesystem::last_write_time(files[0]) == written);
  }
  SUBCASE("damaged records are computed anew") {
    for (const Path& path : files) {
      std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
      file.seekp(static_cast<std::streamoff>(content(path).size()) / 2);
      file.write("damage", 6);
    }
    CHECK(content(files[0]) != good);
    check_same(reference, pictures.finished("run", "disk", {"--overwrite"}));
    CHECK(content(files[0]) == good);
  }
  SUBCASE("other weights have files of their own") {
    const Json other = pictures.finished("other", "off", {"--set", "seed=8"});
    check_same(other, pictures.finished("run", "disk", {"--overwrite", "--set", "seed=8"}));
    CHECK(pictures.files("run").size() == 2);
    CHECK(pictures.files("run") != files);
  }
}

TEST_CASE("killed while features are kept, and resumed") {
  const Pictures pictures;
  const Json reference = pictures.finished("off", "off");
  for (const char* cache : {"disk", "memory"}) {
    std::mt19937 random(3);
    for (int kill = 0; kill < 4; ++kill) {
      Program program(pictures.train(cache, cache, {"--resume"}));
      program.wait_for("\"event\":\"step\"", 1 + static_cast<int>(random() % 5));
      program.signal(SIGKILL);
      program.wait();
    }
    check_same(reference, pictures.finished(cache, cache, {"--resume"}));
  }
}

TEST_CASE("images that change at random: auto says why not, on is refused") {
  const Pictures pictures("freeze: all", ", augment: [random_flip_horizontal]");
  const Result automatic = run(pictures.train("auto", "auto"));
  CHECK(automatic.code == 0);
  CHECK(automatic.err.find("the images of the train split change at random") != std::string::npos);
  const Result on = run(pictures.train("on", "on"));
  CHECK(on.code == 2);
  CHECK(on.err.find("train.cache_features: data.train.augment makes the features different") !=
        std::string::npos);
}

TEST_CASE("without frozen layers at the start there is nothing to keep") {
  const Pictures pictures("freeze: [block_16_*]");
  CHECK(pictures.finished("auto", "auto").at("reason") == "done");
  const Result on = run(pictures.train("on", "on"));
  CHECK(on.code == 2);
  CHECK(on.err.find("train.cache_features: no layers at the start of the model are frozen") !=
        std::string::npos);
}

TEST_CASE("the plan says where the cut is and what becomes of the features") {
  const Pictures pictures;
  const Result plan = run({"plan", pictures.config});
  CHECK(plan.code == 0);
  CHECK(plan.out.find("up to global_average_pooling2d") != std::string::npos);
  CHECK(plan.out.find("[1280] float32") != std::string::npos);
  CHECK(plan.out.find("kept in memory") != std::string::npos);
}

}  // namespace trainer::e2e
