#include "train/features/feature_cache.h"

#include <doctest/doctest.h>

#include "support.h"

namespace trainer::train::feature_cache_test {
namespace {

using namespace support;

const char* const kFrozen =
    "{backbone: {name: mobilenet_v2, alpha: 0.35, freeze: all}, head: [flatten, dense: 2]}";

// A run of synthetic images behind frozen layers.
struct Subject {
  explicit Subject(const std::string& data_keys, std::uint64_t weights = 1)
      : config(trainer::test::config_of(
            kFrozen,
            "data: {format: synthetic, synthetic: {shape: [32, 32, 3], classes: 2, "
            "train_samples: 6, test_samples: 3}" +
                data_keys + "}\n")),
        data(open_training_data(config)),
        engine(model::build_model(config.model, config.data, sample_spec(data), 1), config,
               open_test_backends(1), engine::Engine::Use::kTrain) {
    engine.initialise(weights);
    plan.splits = {Split::kTrain, Split::kTest};
  }

  FeatureCaches open(FeaturePlan::Where where, const Path& run) {
    plan.where = where;
    ProcessGroup alone;
    return FeatureCaches(plan, config, engine, data, run, alone);
  }

  config::Config config;
  data::Datasets data;
  engine::Replicas engine;
  FeaturePlan plan;
};

std::set<std::string> files_of(const Path& run) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(run / "features")) {
    names.insert(entry.path().filename().string());
  }
  return names;
}

// The files of a run with these keys, after one with `before` in the same folder.
std::set<std::string> files_after(const std::string& before, Subject now) {
  const TemporaryFolder folder;
  Subject(before).open(FeaturePlan::Where::kDisk, folder.path());
  now.open(FeaturePlan::Where::kDisk, folder.path());
  return files_of(folder.path());
}

}  // namespace

TEST_CASE("feature cache: of the splits of the plan, in memory or in files") {
  const TemporaryFolder folder;
  Subject subject("");
  CHECK(subject.open(FeaturePlan::Where::kNowhere, folder.path()).find(subject.data.train.get()) ==
        nullptr);
  const FeatureCaches memory = subject.open(FeaturePlan::Where::kMemory, folder.path());
  REQUIRE(memory.find(subject.data.train.get()) != nullptr);
  CHECK(memory.find(subject.data.train.get())->size() == 6);
  CHECK(memory.find(subject.data.test.get())->size() == 3);
  CHECK_FALSE(std::filesystem::exists(folder.path() / "features"));
  const FeatureCaches files = subject.open(FeaturePlan::Where::kDisk, folder.path());
  CHECK(files.problem() == "");
  CHECK(files.find(subject.data.test.get())->size() == 3);
  CHECK(files_of(folder.path()).size() == 2);
}

TEST_CASE("feature cache: files are found again by what the features depend on, others removed") {
  const std::string half = ", normalize: {scale: 0.5}";
  const auto files = files_after(half, Subject(half));
  CHECK(files.size() == 2);
  CHECK(files_after("", Subject(half)) == files);
  // Scales that a printed graph rounds to the same.
  const auto almost = files_after(half, Subject(", normalize: {scale: 0.50000001}"));
  CHECK(almost.size() == 2);
  CHECK(almost != files);
  CHECK(files_after(half, Subject("")) != files);
  CHECK(files_after(half, Subject(", preprocess: caffe")) != files);
  CHECK(files_after(half, Subject(half, 2)) != files);  // other weights
}

}  // namespace trainer::train::feature_cache_test
