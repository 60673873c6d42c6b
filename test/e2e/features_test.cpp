// Features of frozen layers that are kept change nothing but the time.
#include <doctest/doctest.h>
#include <signal.h>
#include <sys/mount.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <random>

#include "base/error.h"
#include "namespace.h"
#include "pictures.h"
#include "support/skip.h"

namespace trainer::e2e {
namespace {

std::string content(const Path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

// 34 images in batches of 8: what an image is computed with, and with how many, differs from epoch
// to epoch.
TEST_CASE("train.cache_features: memory and disk equal a run without cached features bit by bit") {
  for (const char* freeze : {"freeze: all", "freeze: '[:-20]'"}) {
    for (const char* precision : {"float32", "bfloat16"}) {
      SUBCASE(concat(freeze, ", ", precision).c_str()) {
        const Pictures pictures(freeze);
        const Arguments set{"--set", concat("train.precision=", precision)};
        const Result off = run(pictures.train("off", "off", set));
        if (off.err.find("not supported by this device") != std::string::npos) {
          TRAINER_SKIP(concat(precision, " is not supported by this processor"));
        }
        REQUIRE(off.code == 0);
        const Json reference = off.event("finished");
        check_same(reference, pictures.finished("memory", "memory", set));
        check_same(reference, pictures.finished("disk", "disk", set));
        CHECK(pictures.files("disk").size() == 2);
        CHECK_FALSE(std::filesystem::exists(pictures.work / "memory" / "features"));
      }
    }
  }
}

TEST_CASE("train.cache_features: later runs use the files unless damaged or of other weights") {
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
  SUBCASE("files that were cut are filled again") {
    for (const Path& path : files) std::filesystem::resize_file(path, 100);
    check_same(reference, pictures.finished("run", "disk", {"--overwrite"}));
    CHECK(content(files[0]) == good);
  }
  SUBCASE("files that are cut while a run reads them end it with the reason") {
    Program running(pictures.train("run", "disk", {"--overwrite", "--epochs", "1000000"}));
    REQUIRE(running.wait_for("\"event\":\"evaluation\"", 3));
    for (const Path& path : files) std::filesystem::resize_file(path, 0);
    const Result result = running.wait();
    CHECK(result.code == kExitData);
    CHECK(result.err.find("the file was overwritten or cut while it was in use") !=
          std::string::npos);
    CHECK(result.err.find("go on with --resume") != std::string::npos);
  }
  SUBCASE("other weights have files of their own") {
    const Json other = pictures.finished("other", "off", {"--set", "seed=8"});
    check_same(other, pictures.finished("run", "disk", {"--overwrite", "--set", "seed=8"}));
    CHECK(pictures.files("run").size() == 2);
    CHECK(pictures.files("run") != files);
  }
}

// Two ways of preparing images, the second so near that a printed graph shows no difference.
TEST_CASE("train.cache_features: features are computed again for other preprocessing") {
  const Pictures pictures;
  const auto normalised = [](const std::string& scale) {
    return Arguments{"--set", "data.preprocess=null", "--set", "data.normalize.scale=" + scale,
                     "--overwrite"};
  };
  std::string scale;
  SUBCASE("much") { scale = "0.001"; }
  SUBCASE("hardly") { scale = "0.0039215687"; }
  pictures.finished("run", "disk", normalised("0.0039215686"));
  const std::vector<Path> files = pictures.files("run");
  const Json reference = pictures.finished("off", "off", normalised(scale));
  check_same(reference, pictures.finished("run", "disk", normalised(scale)));
  CHECK(pictures.files("run") != files);
}

// An image's features are made by the process that reads it first, and in the next epoch it is
// mostly the other's.
TEST_CASE("train.cache_features: two processes share the features of all images") {
  const Pictures pictures;
  const auto train = [&](const std::string& dir, const std::string& cache, Arguments more = {}) {
    more.insert(more.end(), {"--batch-size", "4", "--set", "parallel.lr_scaling=none", "--set",
                             "parallel.threads=1", "--world-size", "2", "--master",
                             concat("127.0.0.1:", draw_port())});
    Arguments first = pictures.train(dir, cache, more), second = first;
    first.insert(first.end(), {"--rank", "0"});
    second.insert(second.end(), {"--rank", "1"});
    Program chief(first), other(second);
    const std::array<Result, 2> results{chief.wait(), other.wait()};
    INFO(results[0].err, results[1].err);
    if (results[0].code == 0) CHECK(results[1].code == 0);
    return results[0];
  };
  const Result off = train("off", "off");
  REQUIRE(off.code == 0);
  const Result kept = train("run", "auto");
  REQUIRE(kept.code == 0);
  check_same(off.event("finished"), kept.event("finished"));
  CHECK(pictures.files("run").size() == 2);

  SUBCASE("later runs read no image") {
    for (const char* split : {"train", "validation"}) {
      for (const auto& entry :
           std::filesystem::recursive_directory_iterator(pictures.work / split)) {
        if (!entry.is_regular_file()) continue;
        // With the same size and time, it is taken for the same image.
        const auto time = std::filesystem::last_write_time(entry.path());
        const auto size = std::filesystem::file_size(entry.path());
        std::ofstream(entry.path(), std::ios::binary) << std::string(size, 'x');
        std::filesystem::last_write_time(entry.path(), time);
      }
    }
    const Result again = train("run", "disk", {"--overwrite"});
    REQUIRE(again.code == 0);
    check_same(off.event("finished"), again.event("finished"));
  }
  SUBCASE("memory is none that they share") {
    const Result memory = train("other", "memory");
    CHECK(memory.code == 2);
    CHECK(memory.err.find("several processes share features in files") != std::string::npos);
  }
}

TEST_CASE("train.cache_features: a killed and resumed run has the result of an uninterrupted run") {
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

// In the program's view of the machine, the folder is a disk of 64 KiB, and memory is short too, so
// that auto wants the disk; the features take 174 KiB.
TEST_CASE("train.cache_features: auto continues without disk space, and disk is an error") {
  const Pictures pictures;
  const Json reference = pictures.finished("off", "off");
  const Path memory = pictures.work / "meminfo";
  std::ofstream(memory) << "MemTotal: 1000 kB\nMemAvailable: 100 kB\n";
  const auto run_on_full_disk = [&](const std::string& dir, const std::string& cache) {
    const Path folder = pictures.work / dir / "features";
    std::filesystem::create_directories(folder);
    Program program(pictures.train(dir, cache, {"--overwrite"}), {}, [&] {
      if (!enter_namespace() || ::mount("tmpfs", folder.c_str(), "tmpfs", 0, "size=64k") != 0 ||
          ::mount(memory.c_str(), "/proc/meminfo", nullptr, MS_BIND, nullptr) != 0) {
        ::_exit(kNoNamespace);
      }
    });
    return program.wait();
  };
  const Result automatic = run_on_full_disk("auto", "auto");
  if (automatic.code == kNoNamespace) {
    TRAINER_SKIP("this kernel gives no mount namespace");
  }
  INFO(automatic.err);
  REQUIRE(automatic.code == 0);
  CHECK(automatic.err.find("features of the frozen layers are not kept: ") != std::string::npos);
  CHECK(automatic.err.find("No space left on device (0 MiB are needed; choose another "
                           "train.cache_features, or off)") != std::string::npos);
  check_same(reference, automatic.event("finished"));
  const Result disk = run_on_full_disk("disk", "disk");
  INFO(disk.err);
  CHECK(disk.code == 3);
  CHECK(disk.err.find("No space left on device") != std::string::npos);
}

TEST_CASE("train.cache_features: random images give a note with auto and an error with on") {
  const Pictures pictures("freeze: all", ", augment: [random_flip_horizontal]");
  const Result automatic = run(pictures.train("auto", "auto"));
  CHECK(automatic.code == 0);
  CHECK(automatic.err.find("the images of the train split change at random") != std::string::npos);
  const Result on = run(pictures.train("on", "on"));
  CHECK(on.code == 2);
  CHECK(on.err.find("train.cache_features: data.train.augment makes the features different") !=
        std::string::npos);
}

TEST_CASE("train.cache_features: no frozen layers at the start are an error with on") {
  const Pictures pictures("freeze: [block_16_*]");
  CHECK(pictures.finished("auto", "auto").at("reason") == "done");
  const Result on = run(pictures.train("on", "on"));
  CHECK(on.code == 2);
  CHECK(on.err.find("train.cache_features: no layers at the start of the model are frozen") !=
        std::string::npos);
}

TEST_CASE("plan prints the last cached layer of frozen layers, and where features are stored") {
  const Pictures pictures;
  const Result plan = run({"plan", pictures.config});
  CHECK(plan.code == 0);
  CHECK(plan.out.find("up to global_average_pooling2d") != std::string::npos);
  CHECK(plan.out.find("[1280] float32") != std::string::npos);
  CHECK(plan.out.find("kept in memory") != std::string::npos);
}

}  // namespace trainer::e2e
