#include "train/features/feature_cache.h"

#include <doctest/doctest.h>

#include <atomic>
#include <future>
#include <numeric>

#include "support.h"

namespace trainer::train::feature_cache_test {
namespace {

using namespace support;

const char* const kFrozen =
    "{backbone: {name: mobilenet_v2, alpha: 0.35, freeze: all}, head: [flatten, dense: 2]}";

// A run of synthetic images behind frozen layers.
struct Subject {
  explicit Subject(const std::string& data_keys, std::uint64_t weights = 1)
      : config(trainer::test::build_config(
            kFrozen,
            "data: {format: synthetic, synthetic: {shape: [32, 32, 3], classes: 2, "
            "train_samples: 6, test_samples: 3}" +
                data_keys + "}\n")),
        data(open_training_data(config)),
        engine(model::build_model(config.model, config.data, sample_spec(data), 1), config,
               open_test_backends(1), engine::Use::kTrain) {
    engine.initialise(weights);
    plan.splits = {Split::kTrain, Split::kTest};
  }

  FeatureCaches open(FeaturePlan::Storage storage, const Path& run,
                     const std::string& build = "1") {
    FeatureFolder folder{run / "features"};
    folder.build = build;
    return open(storage, folder);
  }
  FeatureCaches open(FeaturePlan::Storage storage, const FeatureFolder& folder) {
    plan.storage = storage;
    ProcessGroup alone;
    return FeatureCaches(plan, config, engine, data, folder, alone);
  }

  config::Config config;
  data::Datasets data;
  engine::Engine engine;
  FeaturePlan plan;
};

std::set<std::string> list_files(const Path& run) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(run / "features")) {
    names.insert(entry.path().filename().string());
  }
  return names;
}

// The files of a run with these keys, after one with `before` in the same folder.
std::set<std::string> files_after(const std::string& before, Subject now) {
  const TemporaryFolder folder;
  Subject(before).open(FeaturePlan::Storage::kDisk, folder.path());
  now.open(FeaturePlan::Storage::kDisk, folder.path());
  return list_files(folder.path());
}

}  // namespace

TEST_CASE("feature cache: each split of the plan has one, in memory or in files") {
  const TemporaryFolder folder;
  Subject subject("");
  CHECK(subject.open(FeaturePlan::Storage::kNone, folder.path()).find(subject.data.train.get()) ==
        nullptr);
  const FeatureCaches memory = subject.open(FeaturePlan::Storage::kMemory, folder.path());
  REQUIRE(memory.find(subject.data.train.get()) != nullptr);
  CHECK(memory.find(subject.data.train.get())->size() == 6);
  CHECK(memory.find(subject.data.test.get())->size() == 3);
  CHECK_FALSE(std::filesystem::exists(folder.path() / "features"));
  const FeatureCaches files = subject.open(FeaturePlan::Storage::kDisk, folder.path());
  CHECK(files.problem() == "");
  CHECK(files.find(subject.data.test.get())->size() == 3);
  CHECK(list_files(folder.path()).size() == 2);
}

TEST_CASE(
    "feature cache: files of the same images and layers are used again, and others are removed") {
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
  const TemporaryFolder folder;
  Subject(half).open(FeaturePlan::Storage::kDisk, folder.path(), "2");  // of the program
  CHECK(list_files(folder.path()) != files);
}

TEST_CASE("feature cache: a shared folder keeps the files of other runs") {
  const TemporaryFolder folder;
  FeatureFolder shared{folder.path() / "features"};
  shared.is_shared = true;
  Subject(", normalize: {scale: 0.5}").open(FeaturePlan::Storage::kDisk, shared);
  const auto first = list_files(folder.path());
  Subject("").open(FeaturePlan::Storage::kDisk, shared);
  const auto both = list_files(folder.path());
  CHECK(both.size() == 4);
  CHECK(std::includes(both.begin(), both.end(), first.begin(), first.end()));
}

TEST_CASE("feature cache: splits of one set of images share a file, unless images are random") {
  const auto open = [](const std::string& keys) {
    const TemporaryFolder folder;
    Subject subject(keys);
    subject.plan.splits = {Split::kTrain, Split::kValidation};
    subject.open(FeaturePlan::Storage::kDisk, folder.path());
    return list_files(folder.path());
  };
  const auto first = open(", folds: 3, fold: 1");
  REQUIRE(first.size() == 1);
  CHECK(first.begin()->starts_with("samples-"));
  CHECK(open(", folds: 3, fold: 2") == first);
  CHECK(open(", validation_split: 0.5") == first);
  const auto random = open(", folds: 3, fold: 1, train: {augment: [random_flip_horizontal]}");
  CHECK(random.size() == 2);
  CHECK(random != open(", folds: 3, fold: 2, train: {augment: [random_flip_horizontal]}"));
}

namespace {

constexpr std::future_status kReady = std::future_status::ready;

// Two runs that keep features of the same images in one folder. A lock belongs to an open file, so
// that two runs of one process are like two processes.
struct TwoRuns {
  TwoRuns() {
    folder.path = temporary.path() / "features";
    folder.is_shared = true;
    folder.patience = std::chrono::minutes(2);
    folder.stop_requested = [this] { return stops.load(); };
    folder.warn = [this](const Notice& notice) {
      if (notice.kind == Notice::Kind::kWarning) warning = notice.text;
      is_waiting = true;
    };
    first.emplace(subject.open(FeaturePlan::Storage::kDisk, folder));
    REQUIRE(first->claim(train()) != nullptr);
  }
  const data::Dataset* train() const { return subject.data.train.get(); }
  // Stores the features of all training images, as the first run computes them.
  void store_all() const {
    data::FeatureDataset& features = *first->find(train());
    std::vector<std::uint8_t> rows(
        static_cast<std::size_t>(features.size()) * features.spec().image_bytes(), 1);
    const std::vector<std::int32_t> labels(static_cast<std::size_t>(features.size()));
    data::Batch batch;
    batch.labels = labels.data();
    batch.indices.resize(labels.size());
    std::iota(batch.indices.begin(), batch.indices.end(), 0);
    features.store(batch, rows.data());
  }
  // Returns whether the features are complete once the second run need not wait any more.
  std::future<bool> claim_second() {
    auto result = std::async(std::launch::async, [this] {
      FeatureCaches second = other.open(FeaturePlan::Storage::kDisk, folder);
      return second.claim(other.data.train.get())->complete();
    });
    while (!is_waiting && result.wait_for(std::chrono::milliseconds(1)) != kReady) continue;
    return result;
  }

  TemporaryFolder temporary;
  FeatureFolder folder;
  Subject subject{""}, other{""};
  std::atomic<bool> stops{false}, is_waiting{false};
  std::string warning;
  std::optional<FeatureCaches> first;
};

}  // namespace

TEST_CASE_FIXTURE(TwoRuns,
                  "feature cache: claim() waits until the other run has computed all features") {
  std::future<bool> second = claim_second();
  CHECK(second.wait_for(std::chrono::milliseconds(200)) == std::future_status::timeout);
  store_all();
  CHECK(second.get());
  CHECK(warning == "");
}

TEST_CASE_FIXTURE(
    TwoRuns, "feature cache: claim() computes the features that an ended run has not computed") {
  std::future<bool> second = claim_second();
  first.reset();
  CHECK_FALSE(second.get());
  CHECK(warning == "");
}

TEST_CASE_FIXTURE(TwoRuns, "feature cache: claim() does not wait for a run that writes nothing") {
  folder.patience = std::chrono::milliseconds(100);
  std::future<bool> second = claim_second();
  CHECK_FALSE(second.get());
  CHECK(warning.find("this run computes them itself") != std::string::npos);
}

TEST_CASE_FIXTURE(TwoRuns, "feature cache: claim() ends with a stop request") {
  std::future<bool> second = claim_second();
  stops = true;
  CHECK_FALSE(second.get());
  CHECK(warning == "");
}

TEST_CASE_FIXTURE(TwoRuns, "feature cache: claim() releases the files that are complete") {
  FeatureLock lock(first->find(train())->file());
  CHECK_FALSE(lock.try_lock());
  first->claim(train());
  CHECK_FALSE(lock.try_lock());
  store_all();
  first->claim(subject.data.test.get());
  CHECK(lock.try_lock());
}

TEST_CASE("feature cache: claim() does not wait in a folder of one run") {
  const TemporaryFolder folder;
  Subject subject(""), other("");
  FeatureCaches first = subject.open(FeaturePlan::Storage::kDisk, folder.path());
  FeatureCaches second = other.open(FeaturePlan::Storage::kDisk, folder.path());
  CHECK(first.claim(subject.data.train.get()) != nullptr);
  CHECK(second.claim(other.data.train.get()) != nullptr);  // ends
}

}  // namespace trainer::train::feature_cache_test
