// `data --suspects`: images whose labels should be looked at, by the program itself.
#include <doctest/doctest.h>

#include <fstream>
#include <map>
#include <random>
#include <set>

#include "base/error.h"
#include "base/formats/csv.h"
#include "base/text.h"
#include "data/arrays/digits.h"
#include "program.h"
#include "support/contains.h"

namespace trainer::e2e::suspects_test {
namespace {

using test::contains;

constexpr int kPerClass = 24;

// Red and blue pictures. Some lie in the folder of the other class.
struct Colours {
  Workspace work;
  Path photos = work / "photos";
  Path config = work / "colours.yaml";
  std::set<std::string> wrong;

  Colours() {
    std::mt19937 random(3);
    for (const bool is_red : {true, false}) {
      for (int i = 0; i < kPerClass; ++i) {
        const bool is_wrong = i % 10 == 4;
        const Path file = photos / (is_red != is_wrong ? "red" : "blue") /
                          concat(is_red ? "a, " : "b_", i, ".ppm");
        if (is_wrong) wrong.insert(file.string());
        std::filesystem::create_directories(file.parent_path());
        std::ofstream out(file, std::ios::binary);
        out << "P6 20 16 255\n";
        for (int byte = 0; byte < 20 * 16 * 3; ++byte) {
          const bool is_bright = byte % 3 == (is_red ? 0 : 2);
          out.put(static_cast<char>((is_bright ? 120 : 20) + random() % 100));
        }
      }
    }
    std::ofstream(config) << concat(
        "name: colours\nmodel: {layers: [conv: {filters: 8, kernel_size: 3, activation: relu}, "
        "global_average_pool, dense: {units: 8, activation: relu}, dense: 2], "
        "loss: softmax_cross_entropy}\ndata: {format: image_folder, path: '",
        photos.string(),
        "', resize: [16, 16], validation_split: 0.25}\noptimizer: {adam: {learning_rate: 0.02}}\n"
        "train: {max_steps: 60, batch_size: 16}\n");
  }
  Path folder() const { return work / "crossval"; }
  Path output() const { return work / "suspects.csv"; }
  Result crossval() const {
    return run({"crossval", config, "--folds", "3", "--dir", folder(), "--quiet"});
  }
  Result suspects(const Path& judge, const Arguments& more = {}) const {
    Arguments arguments{"data", config, "--suspects", judge, "--output", output(), "--overwrite"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(arguments);
  }
  // The rows of the output without the header.
  std::vector<std::vector<std::string>> rows() const {
    const std::vector<std::string> lines = split_text(read_text_file(output()), '\n');
    CHECK(lines.front() == "path,label,suggested_label,reasons,score");
    std::vector<std::vector<std::string>> rows;
    for (std::size_t i = 1; i + 1 < lines.size(); ++i) rows.push_back(split_csv_row(lines[i]));
    return rows;
  }
};

}  // namespace

TEST_CASE("data --suspects: crossval finds the images in the wrong folder with the other class") {
  const Colours colours;
  const Result trained = colours.crossval();
  INFO(trained.err);
  REQUIRE(trained.code == 0);
  const Result text = colours.suspects(colours.folder(), {"--sheet", colours.work / "sheet.png"});
  INFO(text.out, text.err);
  REQUIRE(text.code == 0);
  CHECK(contains(text.out, "judged: 48 of 48 images, each by the run of crossval that has not"));
  CHECK(contains(text.out, concat("likely wrong labels: ", colours.wrong.size(), '\n')));
  CHECK(contains(text.out, "data.relabel\n"));
  CHECK(read_text_file(colours.work / "sheet.png").starts_with("\x89PNG"));
  std::set<std::string> found;
  double last = 1;
  for (const std::vector<std::string>& row : colours.rows()) {
    REQUIRE(row.size() == 5);
    if (!row[3].starts_with("wrong_label")) continue;
    found.insert(row[0]);
    CHECK(Path(row[0]).parent_path().filename() == row[1]);
    CHECK(row[2] == (row[1] == "red" ? "blue" : "red"));
    CHECK(std::stod(row[4]) <= last);
    last = std::stod(row[4]);
    CHECK(last > 0);
  }
  CHECK(found == colours.wrong);

  const Result json = colours.suspects(colours.folder(), {"--json"});
  REQUIRE(json.code == 0);
  const Json first = json.lines().front(), event = json.event("suspects");
  CHECK(first["path"] == colours.rows()[0][0]);
  CHECK(first["label"] == colours.rows()[0][1]);
  CHECK(first["suggested_label"] == colours.rows()[0][2]);
  CHECK(first["reasons"][0] == "wrong_label");
  CHECK(event["judged"] == 48);
  CHECK(event["judged_by"] == "crossval");
  CHECK(event["wrong_labels"] == colours.wrong.size());
}

TEST_CASE("data --suspects finds copies with another label and in another split") {
  const Colours colours;
  REQUIRE(colours.crossval().code == 0);
  // A copy in the other class, and one of a training image in the test split.
  const Path red = colours.photos / "red" / "a, 7.ppm", blue = colours.photos / "blue" / "b_8.ppm";
  const Path other = colours.photos / "blue" / "copy.ppm";
  const Path test = colours.work / "test" / "blue" / "copy.ppm";
  std::filesystem::create_directories(test.parent_path());
  std::filesystem::create_directories(colours.work / "test" / "red");
  std::filesystem::copy_file(red, other);
  std::filesystem::copy_file(blue, test);
  std::filesystem::copy_file(colours.photos / "red" / "a, 0.ppm",
                             colours.photos / "red" / "copy.ppm");
  std::filesystem::copy_file(colours.photos / "red" / "a, 1.ppm",
                             colours.work / "test" / "red" / "other.ppm");
  const Result text = colours.suspects(
      colours.folder(), {"--set", concat("data.test.path=", (colours.work / "test").string())});
  INFO(text.out, text.err);
  REQUIRE(text.code == 0);
  CHECK(contains(text.out, "copies with several labels or in several splits: 3 groups\n"));
  CHECK(contains(text.out, concat("  ", other.string(), " (")));
  CHECK(contains(text.out, concat(", blue) = ", red.string(), " (")));
  CHECK(contains(text.out, concat("  ", blue.string(), " (")));
  CHECK(contains(text.out, concat(", blue) = ", test.string(), " (test, blue)\n")));
  CHECK(contains(text.out, "groups of copies with one label in one split: 1\n"));
  // The folds are others than those of the runs now, and the images are found by name.
  CHECK(contains(text.err,
                 "fold=1: the training data is not what it was when the run was trained; "
                 "images are found by their names"));
  CHECK(text.err.find("the training data is not") == text.err.rfind("the training data is not"));
  CHECK(contains(text.out, "judged: 48 of 52 images"));
  std::map<std::string, std::string> reasons;
  for (const std::vector<std::string>& row : colours.rows()) reasons[row[0]] = row[3];
  CHECK(contains(reasons[red.string()], "copy_of_other_label"));
  CHECK(contains(reasons[other.string()], "copy_of_other_label"));
  CHECK(contains(reasons[blue.string()], "copy_in_other_split"));
  CHECK(contains(reasons[test.string()], "copy_in_other_split"));
}

TEST_CASE("data --suspects: crossval of arrays that have changed is an error") {
  const Workspace work;
  const std::string config = work.config(
      concat(kModel, "data: {format: idx, path: ", work.data(),
             ", limit: 60}\noptimizer: {adam: {learning_rate: 1.0e-3}}\ntrain: {max_steps: 2, "
             "batch_size: 8}\n"));
  REQUIRE(run({"crossval", config, "--folds", "2", "--dir", work / "folds", "--quiet"}).code == 0);
  const Arguments command{"data",     config,         "--suspects", work / "folds",
                          "--output", work / "x.csv", "--overwrite"};
  const Result same = run(command);
  INFO(same.err);
  CHECK(same.code == 0);
  CHECK(contains(same.out, "judged: 60 of "));
  std::filesystem::remove_all(work.data());
  data::generate_digits(work.data(), 599, 250);
  std::filesystem::remove(work / "x.csv");
  const Result changed = run(command);
  CHECK(changed.code == 3);
  CHECK(contains(changed.err, "fold=1: the arrays of the training data are not what they were"));
  CHECK(!std::filesystem::exists(work / "x.csv"));
}

TEST_CASE("data --suspects examines the images of the validation split of one run") {
  const Colours colours;
  const Path folder = colours.work / "run";
  REQUIRE(run({"train", colours.config, "--run-dir", folder, "--quiet"}).code == 0);
  const Result text = colours.suspects(folder);
  INFO(text.out, text.err);
  REQUIRE(text.code == 0);
  CHECK(contains(text.out,
                 "judged: 12 of 48 images, those of the validation split of the run; "
                 "give the folder of `trainer crossval`"));
  for (const std::vector<std::string>& row : colours.rows()) {
    if (row[3].starts_with("wrong_label")) CHECK(colours.wrong.contains(row[0]));
  }
  std::filesystem::remove(colours.photos / "red" / "a, 0.ppm");
  const Result changed = colours.suspects(folder);
  CHECK(changed.code == 3);
  CHECK(contains(changed.err,
                 "run: the training data is not what it was when the run was trained, "
                 "and validation is a part of it"));
}

TEST_CASE(
    "data --suspects follows one run whose validation images have a folder, after they changed") {
  const Colours colours;
  std::filesystem::create_directories(colours.work / "validation");
  for (const char* name : {"red", "blue"}) {
    std::filesystem::copy(colours.photos / name, colours.work / "validation" / name);
  }
  const Path folder = colours.work / "run";
  const std::string place = concat("data.validation.path=", (colours.work / "validation").string());
  REQUIRE(run({"train", colours.config, "--run-dir", folder, "--quiet", "--set", place, "--set",
               "data.validation_split=0"})
              .code == 0);
  std::filesystem::remove(colours.photos / "red" / "a, 0.ppm");
  std::filesystem::remove(colours.work / "validation" / "red" / "a, 1.ppm");
  const Result text =
      colours.suspects(folder, {"--set", place, "--set", "data.validation_split=0"});
  INFO(text.out, text.err);
  REQUIRE(text.code == 0);
  CHECK(contains(text.out, "judged: 47 of 94 images"));
}

TEST_CASE("data --suspects: results of other images or an existing output are an error") {
  const Colours colours, others;
  REQUIRE(colours.crossval().code == 0);
  const Result foreign = others.suspects(colours.folder());
  CHECK(foreign.code == 3);
  CHECK(contains(foreign.err, "judges none of the images of the config"));
  std::filesystem::rename(colours.photos / "red", colours.photos / "green");
  const Result renamed = colours.suspects(colours.folder());
  CHECK(renamed.code == 3);
  CHECK(contains(renamed.err, "has the classes [blue, red], but the images have [blue, green]"));
  std::filesystem::remove(colours.folder() / "out_of_fold.csv");
  const Result unfinished = colours.suspects(colours.folder());
  CHECK(unfinished.code == 3);
  CHECK(contains(unfinished.err, "has no out_of_fold.csv"));
  std::ofstream(colours.output()) << "edited";
  const Result twice =
      run({"data", colours.config, "--suspects", colours.folder(), "--output", colours.output()});
  CHECK(twice.code == 2);
  CHECK(contains(twice.err, "--overwrite"));
  CHECK(read_text_file(colours.output()) == "edited");
  const Result applied =
      run({"data", colours.config, "--suspects", colours.folder(), "--output", colours.output(),
           "--overwrite", "--set", concat("data.relabel=", colours.output().string())});
  CHECK(applied.code == 2);
  CHECK(contains(applied.err, "is the file of data.relabel, whose corrections would be lost"));
  CHECK(read_text_file(colours.output()) == "edited");
}

}  // namespace trainer::e2e::suspects_test
