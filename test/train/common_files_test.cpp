// Files that differ between the ranks of a job, and what all ranks report.
#include "train/common_files.h"

#include <doctest/doctest.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/error.h"
#include "base/files/files.h"
#include "cluster/transport/socket.h"
#include "support/contains.h"
#include "support/model.h"

namespace trainer::train::common_files_test {
namespace {

namespace fs = std::filesystem;
using trainer::test::contains;

// Samples that are files of a folder: 0.jpg, 1.jpg, ...
class FileSamples final : public data::Dataset {
 public:
  FileSamples(fs::path folder, std::int64_t count) : folder_(std::move(folder)), count_(count) {}
  std::int64_t size() const override { return count_; }
  const data::DatasetSpec& spec() const override { return spec_; }
  void get(std::int64_t, std::int64_t, void*, void*) const override {}
  std::string describe(std::int64_t index) const override {
    return (folder_ / concat(index, ".jpg")).string();
  }
  std::string fingerprint() const override { return "names and sizes"; }

 private:
  fs::path folder_;
  std::int64_t count_;
  data::DatasetSpec spec_;
};

// A folder of files for each of two ranks, with the same content.
struct Copies {
  explicit Copies(std::int64_t files) : count(files) {
    for (const fs::path& folder : folders) {
      fs::create_directory(folder);
      for (std::int64_t i = 0; i < count; ++i) write(folder, i, concat("image ", i % 10));
    }
  }
  void write(const fs::path& folder, std::int64_t file, const std::string& content) const {
    std::ofstream(folder / concat(file, ".jpg")) << content;
  }

  // Returns what each rank throws.
  std::array<std::string, 2> compare() const {
    const config::Config config = trainer::test::build_config(
        "{layers: [flatten, dense: 2]}", "parallel: {lr_scaling: none, timeout: 60 seconds}\n");
    config::Config images = config;
    images.data.format = config::DataFormat::kImageFolder;
    const graph::Graph model =
        trainer::test::build("{layers: [flatten, dense: 2]}", trainer::test::sample({4, 4, 1}, 2));
    const cluster::ReservedPort port;
    std::array<std::string, 2> messages;
    const auto run = [&](int rank) {
      cluster::Identity who;
      who.rank = who.index = rank;
      who.size = 2;
      who.role = rank == 0 ? cluster::Role::kChief : cluster::Role::kWorker;
      who.master = {"127.0.0.1", port.number()};
      who.source = "--rank";
      try {
        ProcessGroup group(who, config, {}, [](const std::string&) {});
        data::Datasets data;
        data.train = std::make_unique<FileSamples>(folders[static_cast<std::size_t>(rank)], count);
        agree_on_data(group, images, data, "");
      } catch (const Error& error) {
        messages[static_cast<std::size_t>(rank)] = error.what();
      }
    };
    std::thread other(run, 1);
    run(0);
    other.join();
    return messages;
  }

  const TemporaryFolder work;
  const std::array<fs::path, 2> folders{work.path() / "a", work.path() / "b"};
  const std::int64_t count;
};

void check_names(const std::array<std::string, 2>& messages, const std::string& file) {
  for (const std::string& message : messages) {
    INFO(message);
    CHECK(contains(message, "rank 1 (on "));
    CHECK(contains(message, "differs from rank 0 in the file "));
    CHECK(contains(message, file + " (sample "));
    CHECK(contains(message, "train split"));
  }
}

}  // namespace

TEST_CASE("agree_on_data accepts copies of the same files") {
  const Copies copies(40);
  for (const std::string& message : copies.compare()) CHECK(message == "");
}

TEST_CASE("agree_on_data reads 256 files that are spread over a split") {
  const Copies copies(3000);
  copies.write(copies.folders[1], 2 * 3000 / 256, "IMAGE 3");
  check_names(copies.compare(), "23.jpg");
}

TEST_CASE("agree_on_data names a file of equal size and other content") {
  const Copies copies(40);
  copies.write(copies.folders[1], 17, "IMAGE 7");
  check_names(copies.compare(), "17.jpg");
}

TEST_CASE("agree_on_data names a file that one rank lacks") {
  const Copies copies(40);
  fs::remove(copies.folders[1] / "3.jpg");
  const auto messages = copies.compare();
  check_names(messages, "3.jpg");
  CHECK(contains(messages[1], "it cannot be read"));
}

TEST_CASE("agree_on_data names rank 0 if it lacks a file") {
  const Copies copies(40);
  fs::remove(copies.folders[0] / "3.jpg");
  for (const std::string& message : copies.compare()) {
    CHECK(contains(message, "rank 0 cannot read the file "));
    CHECK(contains(message, "3.jpg"));
  }
}

}  // namespace trainer::train::common_files_test
