#include "hooks/data_report.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "base/files/files.h"
#include "data/damaged_files.h"
#include "data/dataset.h"

namespace trainer::hooks {
namespace {

std::string text(std::int64_t files, const std::vector<std::string>& reasons) {
  const data::DamagedFiles damaged(files, reasons, {});
  return left_out(&damaged, Split::kTest);
}

// Samples of these classes, without images.
class Labels final : public data::Dataset {
 public:
  explicit Labels(std::vector<std::int32_t> labels) : labels_(std::move(labels)) {
    spec_.image_shape = {1, 1, 1};
  }
  std::int64_t size() const override { return static_cast<std::int64_t>(labels_.size()); }
  const data::DatasetSpec& spec() const override { return spec_; }
  void get(std::int64_t, std::int64_t, void*, void*) const override {}
  std::int32_t label_at(std::int64_t index) const override {
    return labels_[static_cast<std::size_t>(index)];
  }
  std::string fingerprint() const override { return "labels"; }

 private:
  std::vector<std::int32_t> labels_;
  data::DatasetSpec spec_;
};

data::Datasets training_on(std::vector<std::int32_t> labels) {
  data::Datasets data;
  data.train = std::make_unique<Labels>(std::move(labels));
  data.classes = {"cat", "dog", "owl", "pig"};
  data.num_classes = 4;
  return data;
}

using Lines = std::vector<std::string>;

// What a run reports about its data, from its start to its end.
struct Told {
  Lines warnings;
  Lines events;
  std::string report;  // data_report.txt; "none" without

  explicit Told(
      const data::Datasets& data, const std::function<void()>& in_the_run = [] {}) {
    const TemporaryFolder folder;
    std::ostringstream json;
    const auto warn = [&](const std::string& line) { warnings.push_back(line); };
    const auto hook = make_data_report_hook(data, warn, &json);
    RunInfo info;
    info.dir = folder.path();
    hook->on_start(info);
    in_the_run();
    hook->on_finish({});
    const Path path = folder.path() / "data_report.txt";
    report = std::filesystem::exists(path) ? read_text_file(path) : "none";
    for (std::string& line : warnings) {
      const auto at = line.find(folder.path().string());
      if (at != std::string::npos) line.replace(at, folder.path().string().size(), "RUN");
    }
    std::istringstream lines(json.str());
    for (std::string line; std::getline(lines, line);) {
      const auto event = nlohmann::json::parse(line);
      events.push_back(concat(event.at("split").get<std::string>(), " ",
                              event.at("skipped").get<int>(), " of ",
                              event.at("files").get<int>()));
    }
  }
};

}  // namespace

TEST_CASE("data_warnings names classes without a sample in the training data") {
  CHECK(data_warnings(training_on({0, 3, 1, 2})).empty());
  CHECK(data_warnings(training_on({3, 1, 1})) ==
        Lines{"the training data has no sample of: cat, owl"});
  data::Datasets many = training_on({0, 1});
  many.num_classes = 100'000;
  many.classes.clear();
  for (int i = 0; i < 100'000; ++i) many.classes.push_back(std::to_string(i));
  const Lines lines = data_warnings(many);
  REQUIRE(lines.size() == 1);
  CHECK(
      lines[0].ends_with("2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21 "
                         "and 99978 more"));
  CHECK(data_warnings(data::Datasets{}).empty());
}

TEST_CASE("data report: damaged files cause one warning and one event per split") {
  data::Datasets data = training_on({0, 1, 2, 3});
  const Told nothing(data);
  CHECK(nothing.warnings.empty());
  CHECK(nothing.events.empty());
  CHECK(nothing.report == "none");

  const auto files = [](std::int64_t count, const char* reason, const Lines& left_aside) {
    return std::make_shared<data::DamagedFiles>(count, Lines{reason}, left_aside);
  };
  data.train_files = files(9, "a.jpg: is cut", {"2 images lie in no folder of a class"});
  data.validation_files = data.train_files;  // split off from it
  data.test_files = files(5, "b.jpg: is empty", {"2 images lie in no folder of a class"});
  const Told told(data);
  CHECK(told.warnings == Lines{"2 images lie in no folder of a class",
                               "1 of 9 files skipped (train), see RUN/data_report.txt",
                               "1 of 5 files skipped (test), see RUN/data_report.txt"});
  CHECK(told.events == Lines{"train 1 of 9", "test 1 of 5"});
  CHECK(told.report == "train: skipped: a.jpg: is cut\ntest: skipped: b.jpg: is empty\n");
}

TEST_CASE("data report: warnings of the decoder make one line at the end of the run") {
  data::Datasets data = training_on({0, 1, 2, 3});
  data.train_files = std::make_shared<data::DamagedFiles>(9, Lines{}, Lines{});
  data.test_files = std::make_shared<data::DamagedFiles>(5, Lines{}, Lines{});
  const Told told(data, [&] {
    data.test_files->note_warning(3, "c.jpg: extraneous bytes");
    data.test_files->note_warning(4, "d.jpg: extraneous bytes");
  });
  const std::string line =
      "2 of 5 files of the test split were decoded with warnings, the first: "
      "c.jpg: extraneous bytes";
  CHECK(told.warnings == Lines{line});
  CHECK(told.events.empty());
  CHECK(told.report == line + "\n");
}

TEST_CASE(
    "left_out: three of the files that evaluation leaves out are named and the others are "
    "counted") {
  CHECK(left_out(nullptr, Split::kTest).empty());
  CHECK(text(9, {}).empty());
  CHECK(text(9, {"a"}) == "1 of 9 files of the test split cannot be read and is left out: a");
  const std::string three = "of 9 files of the test split cannot be read and are left out: a; b; c";
  CHECK(text(9, {"a", "b", "c"}) == "3 " + three);
  CHECK(text(9, {"a", "b", "c", "d", "e"}) == "5 " + three + "; and 2 more");
}

TEST_CASE("data report: names with line breaks and control characters stay in one line each") {
  data::Datasets data = training_on({0, 1, 2, 3});
  data.train_files = std::make_shared<data::DamagedFiles>(
      9, Lines{"a\ntest: skipped: \x1b[2Jd\xc3\xb6g.jpg: is cut"}, Lines{});
  CHECK(Told(data).report ==
        "train: skipped: a\\x0atest: skipped: \\x1b[2Jd\xc3\xb6g.jpg: is cut\n");
}

}  // namespace trainer::hooks
