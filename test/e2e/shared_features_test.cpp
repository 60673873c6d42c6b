// Features of frozen layers that the points of a sweep share change nothing but the time.
#include <doctest/doctest.h>
#include <signal.h>
#include <sys/mount.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>

#include "base/error.h"
#include "namespace.h"
#include "pictures.h"
#include "support/contains.h"
#include "support/skip.h"

namespace trainer::e2e::shared_features_test {
namespace {

using test::contains;

constexpr const char* kRates = "optimizer.adam.learning_rate=";

std::string point_name(const std::string& rate) { return "learning_rate=" + rate; }

struct Sweep : Pictures {
  Path folder() const { return work / "sweep"; }
  Arguments arguments(const std::string& rates) const {
    return {"sweep", config, "--dir", folder(), "--json", "--over", kRates + rates};
  }
  // The hash of the parameters of a run that shares nothing.
  std::string alone(const std::string& rate) const {
    const Json event = finished("alone", "off", {"--overwrite", "--set", kRates + rate});
    return event.at("parameters_sha256");
  }
  Json record(const std::string& rate) const {
    return Json::parse(read_text_file(folder() / point_name(rate) / "run.json"));
  }
  void check_points(const std::string& first, const std::string& second) const {
    for (const std::string& rate : {first, second}) {
      CHECK(record(rate).at("finished").at("parameters_sha256") == alone(rate));
    }
  }
  Arguments train_shared(const std::string& dir, const Arguments& more = {}) const {
    Arguments arguments = train(dir, "auto", more);
    arguments.insert(arguments.end(), {"--features-dir", work / "features"});
    return arguments;
  }
};

// True if a run has computed features, and not only read them, by its event "finished".
bool has_computed(const Result& result) {
  return result.event("finished").contains("images_per_second_computing_features");
}

// Replaces the images by bytes of the same size and time, which count as the same images.
void damage_images(const Workspace& work) {
  for (const char* split : {"train", "validation"}) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(work / split)) {
      if (!entry.is_regular_file()) continue;
      const auto time = std::filesystem::last_write_time(entry.path());
      const auto size = std::filesystem::file_size(entry.path());
      std::ofstream(entry.path(), std::ios::binary) << std::string(size, 'x');
      std::filesystem::last_write_time(entry.path(), time);
    }
  }
}

std::size_t count_files(const Path& folder) {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
}

}  // namespace

TEST_CASE("sweep: the points share the features of frozen layers, and keep their bits") {
  const Sweep sweep;
  const Result result = run(sweep.arguments("1e-3,1e-2"));
  INFO(result.err);
  REQUIRE(result.code == 0);
  sweep.check_points("1e-3", "1e-2");
  CHECK(count_files(sweep.folder() / "features") == 2);
  for (const std::string rate : {"1e-3", "1e-2"}) {
    const Json finished = sweep.record(rate).at("finished");
    CHECK(finished.contains("images_per_second_computing_features") == (rate == "1e-3"));
    CHECK(finished.at("images_per_second_cached_features").get<double>() > 0);
  }
  CHECK_FALSE(std::filesystem::exists(sweep.folder() / point_name("1e-3") / "features"));

  SUBCASE("later points read no image") {
    const std::string expected = sweep.alone("3e-3");
    damage_images(sweep.work);
    const Result more = run(sweep.arguments("1e-3,1e-2,3e-3"));
    INFO(more.err);
    REQUIRE(more.code == 0);
    CHECK(sweep.record("3e-3").at("finished").at("parameters_sha256") == expected);
  }
  SUBCASE("old checkpoints are removed, and the features stay for later points") {
    const Result listed = run({"runs", sweep.folder(), "--json"});
    CHECK(listed.event("runs").at("runs").size() == 2);
    CHECK(run({"runs", "clean", sweep.folder()}).code == 0);
    CHECK(count_files(sweep.folder() / "features") == 2);
  }
  SUBCASE("damaged features are computed again") {
    for (const auto& entry : std::filesystem::directory_iterator(sweep.folder() / "features")) {
      std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
      file.seekp(static_cast<std::streamoff>(entry.file_size()) / 2);
      file.write("damage", 6);
    }
    REQUIRE(run(sweep.arguments("1e-3,1e-2,3e-3")).code == 0);
    sweep.check_points("1e-3", "3e-3");
  }
}

TEST_CASE("sweep: after a kill it reads the features that were computed before") {
  const Sweep sweep;
  const std::string expected = sweep.alone("1e-2");
  {
    Program program(sweep.arguments("1e-3,1e-2"));
    REQUIRE(program.wait_for("\"event\":\"point\""));
    program.signal(SIGKILL);
    program.wait();
  }
  damage_images(sweep.work);
  const Result result = run(sweep.arguments("1e-3,1e-2"));
  INFO(result.err);
  REQUIRE(result.code == 0);
  CHECK(sweep.record("1e-2").at("finished").at("parameters_sha256") == expected);
}

TEST_CASE(
    "train: one of two runs at the same time computes the features and the other waits for it") {
  const Sweep sweep;
  const Json reference = sweep.finished("off", "off");
  Program first(sweep.train_shared("first", {"--set", "run.checkpoint_every=1 steps"}));
  REQUIRE(first.wait_for("\"event\":\"step\""));
  first.signal(SIGSTOP);
  Program second(sweep.train_shared("second"));
  REQUIRE(second.wait_for("waiting for it"));
  SUBCASE("both end") {
    first.signal(SIGCONT);
    const Result one = first.wait(), other = second.wait();
    INFO(one.err, other.err);
    REQUIRE(one.code == 0);
    REQUIRE(other.code == 0);
    check_same(reference, one.event("finished"));
    check_same(reference, other.event("finished"));
    CHECK(has_computed(one));
    CHECK_FALSE(has_computed(other));
  }
  SUBCASE("the first is killed") {
    first.signal(SIGKILL);
    first.wait();
    const Result other = second.wait();
    INFO(other.err);
    REQUIRE(other.code == 0);
    check_same(reference, other.event("finished"));
    CHECK(has_computed(other));
  }
  SUBCASE("the second is asked to stop") {
    second.signal(SIGTERM);
    CHECK(second.wait().code == kExitInterrupted);
  }
}

// In the program's view of the machine, the shared folder is a disk of 64 KiB; the features take
// 174 KiB.
TEST_CASE(
    "train: no disk space for shared features causes one warning and does not change the result") {
  const Sweep sweep;
  const Json reference = sweep.finished("off", "off");
  const Path folder = sweep.work / "features";
  std::filesystem::create_directories(folder);
  Program program(sweep.train_shared("run"), {}, [&] {
    if (!enter_namespace() || ::mount("tmpfs", folder.c_str(), "tmpfs", 0, "size=64k") != 0) {
      ::_exit(kNoNamespace);
    }
  });
  const Result result = program.wait();
  if (result.code == kNoNamespace) TRAINER_SKIP("this kernel gives no mount namespace");
  INFO(result.err);
  REQUIRE(result.code == 0);
  check_same(reference, result.event("finished"));
  constexpr const char* kWarning = "features of the frozen layers are not shared with other runs: ";
  const std::size_t at = result.err.find(kWarning);
  REQUIRE(at != std::string::npos);
  CHECK(result.err.find(kWarning, at + 1) == std::string::npos);
  CHECK(contains(result.err, "No space left on device"));
  CHECK(has_computed(result));  // once, and then read from memory
  CHECK_FALSE(contains(result.err, "are not kept"));
}

TEST_CASE("crossval: the folds share the features of all images") {
  const Sweep pictures;
  const auto finished = [&](int fold) {
    const Json record = Json::parse(
        read_text_file(pictures.work / "crossval" / concat("fold=", fold) / "run.json"));
    return record.at("finished").at("parameters_sha256").get<std::string>();
  };
  const Result result = run(
      {"crossval", pictures.config, "--folds", "3", "--dir", pictures.work / "crossval", "--json"});
  INFO(result.err);
  REQUIRE(result.code == 0);
  CHECK(count_files(pictures.work / "crossval" / "features") == 1);
  for (const int fold : {1, 2, 3}) {
    const Json alone = pictures.finished(concat("alone", fold), "off",
                                         {"--set", "data.folds=3", "--fold", std::to_string(fold)});
    CHECK(alone.at("parameters_sha256") == finished(fold));
  }
  // A fold that is trained afterwards computes nothing.
  Arguments again = pictures.train("again", "auto", {"--set", "data.folds=3", "--fold", "2"});
  again.insert(again.end(), {"--features-dir", pictures.work / "crossval" / "features"});
  const Result last = run(again);
  INFO(last.err);
  REQUIRE(last.code == 0);
  CHECK_FALSE(has_computed(last));
  CHECK(last.event("finished").at("parameters_sha256") == finished(2));
}

TEST_CASE("train: a folder for features among the images is an error") {
  const Sweep sweep;
  Arguments arguments = sweep.train("run", "auto");
  arguments.insert(arguments.end(), {"--features-dir", sweep.work / "train" / "features"});
  const Result result = run(arguments);
  CHECK(result.code == kExitConfig);
  CHECK(contains(result.err, "choose a folder elsewhere with --features-dir"));
}

}  // namespace trainer::e2e::shared_features_test
