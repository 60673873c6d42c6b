#include "data/split_folders.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "base/error.h"
#include "commands/data/check_print.h"
#include "data/check.h"
#include "data/images/image_files.h"
#include "data/open.h"
#include "data/open_images.h"

namespace trainer::data::split_folders_test {
namespace {

using commands::to_text;

// Classes a and b with `count` images each.
void write_classes(const fs::path& folder, int count, int seed = 0) {
  for (const char* name : {"a", "b"}) {
    for (int i = 0; i < count; ++i) {
      write_image(folder / name / concat(i, ".ppm"), 9, 9, ++seed);
    }
  }
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

bool notes_contain(const Datasets& sets, const std::string& part) {
  const std::vector<std::string> notes = sets.train_files->damage().left_aside;
  return std::any_of(notes.begin(), notes.end(),
                     [&](const std::string& note) { return contains(note, part); });
}

}  // namespace

TEST_CASE("find_split_in_name finds the listed names in any case, alone or as a word") {
  for (const char* name : {"train", "Training", "TRAIN", "seg_train", "train_images", "TrainImages",
                           "train2017", "my-training set", "data.train"}) {
    CAPTURE(name);
    CHECK(find_split_in_name(name) == Split::kTrain);
  }
  for (const char* name : {"val", "Valid", "VALIDATION", "dev", "seg_val", "valid-images"}) {
    CAPTURE(name);
    CHECK(find_split_in_name(name) == Split::kValidation);
  }
  for (const char* name : {"test", "Testing", "TEST", "eval", "seg_test", "Test Images"}) {
    CAPTURE(name);
    CHECK(find_split_in_name(name) == Split::kTest);
  }
  for (const char* name : {"", "trains", "strain", "invalid", "contest", "evaluation2", "devil",
                           "train_test", "control", "\xC3\xA9train", "value"}) {
    CAPTURE(name);
    CHECK(find_split_in_name(name) == std::nullopt);
  }
}

TEST_CASE("image_folder: folders named after splits are splits, for any form of the name") {
  struct Layout {
    const char *train, *validation, *test;
  };
  for (const Layout& layout :
       {Layout{"train", "valid", "test"}, Layout{"Training", nullptr, "Testing"},
        Layout{"Train", "Dev", "Test"}, Layout{"TRAIN", nullptr, "TEST"},
        Layout{"seg_train", "seg_val", "seg_test"}, Layout{"train", nullptr, "eval"},
        Layout{"train_images", "validation_images", "test_images"}}) {
    CAPTURE(layout.train);
    const TemporaryFolder folder;
    write_classes(folder.path() / layout.train, 3);
    if (layout.validation != nullptr) write_classes(folder.path() / layout.validation, 2, 20);
    write_classes(folder.path() / layout.test, 1, 40);
    const Datasets sets = open_datasets(build_config(folder.path()), 1);
    CHECK(sets.classes == std::vector<std::string>{"a", "b"});
    CHECK(sets.train->size() == 6);
    CHECK((sets.validation != nullptr) == (layout.validation != nullptr));
    if (sets.validation) CHECK(sets.validation->size() == 4);
    REQUIRE(sets.test != nullptr);
    CHECK(sets.test->size() == 2);
    CHECK(sets.train_files->damage().left_aside.empty());
    const SplitFolders found = find_split_folders(folder.path());
    CHECK(found.paths.at(Split::kTrain) == folder.path() / layout.train);
  }
}

TEST_CASE("image_folder: classes that are named like splits remain classes") {
  for (const std::vector<std::string>& names : {std::vector<std::string>{"control", "test"},
                                                {"invalid", "valid"},
                                                {"bus", "car", "train"}}) {
    CAPTURE(names[0]);
    const TemporaryFolder folder;
    for (const std::string& name : names) write_image(folder.path() / name / "1.ppm", 9, 9, 1);
    CHECK(open_datasets(build_config(folder.path()), 1).classes == names);
  }
  // data.classes decides where the folders alone do not.
  const TemporaryFolder folder;
  write_classes(folder.path() / "control", 1);
  write_classes(folder.path() / "test", 1, 20);
  config::Data config = build_config(folder.path());
  CHECK(contains(find_open_error(config),
                 "contains no folder of the training split (train), but test"));
  config.classes = {"test", "control"};
  CHECK(open_datasets(config, 1).train->size() == 4);
}

TEST_CASE("image_folder: of two folders of a split one is used and the other is reported") {
  const TemporaryFolder folder;
  write_classes(folder.path() / "train", 2);
  write_classes(folder.path() / "train_raw", 2, 10);
  write_classes(folder.path() / "val", 1, 20);
  write_classes(folder.path() / "holdout", 1, 30);
  write_image(folder.path() / "test" / "1.ppm", 9, 9, 40);  // without classes
  const Datasets sets = open_datasets(build_config(folder.path()), 1);
  CHECK(sets.train->size() == 4);
  CHECK(sets.test == nullptr);
  CHECK(notes_contain(sets, "holdout contains a folder per class, but is not used"));
  CHECK(notes_contain(sets, "train_raw contains a folder per class, but is not used"));
  CHECK(notes_contain(sets, "test is not used: it contains images, but no folder per class"));
  CHECK(to_text(check_images(build_config(folder.path()), 1, ""))
            .find("holdout contains a folder per class") != std::string::npos);
  fs::rename(folder.path() / "train", folder.path() / "train_new");
  CHECK(contains(find_open_error(build_config(folder.path())),
                 "train_new and train_raw; which of them is the train split"));
}

TEST_CASE("image_folder: folders that are not classes are rejected, never trained on") {
  const TemporaryFolder folder;
  config::Data config = build_config(folder.path());
  SUBCASE("unknown names with equal folders") {
    write_classes(folder.path() / "part1", 1);
    write_classes(folder.path() / "part2", 1, 10);
    CHECK(contains(find_open_error(config),
                   "the folders part1 and part2, which both contain a folder a"));
    config.path.clear();
    config.train.path = folder.path();
    CHECK(contains(find_open_error(config), "which of them is which split?"));
    config.classes = {"part1", "part2"};
    CHECK(open_datasets(config, 1).train->size() == 4);
  }
  SUBCASE("unknown names with equal folders in another case, among other folders") {
    write_classes(folder.path() / "first", 1);
    write_image(folder.path() / "second/A/1.ppm", 9, 9, 1);
    write_image(folder.path() / "second/c/1.ppm", 9, 9, 2);
    CHECK(contains(find_open_error(config),
                   "the folders first and second, which both contain a folder"));
  }
  SUBCASE("splits below data.train.path") {
    write_classes(folder.path() / "Training", 1);
    write_classes(folder.path() / "Testing", 1, 10);
    config.path.clear();
    config.train.path = folder.path();
    CHECK(contains(find_open_error(config), "of which Training is the training split"));
  }
  SUBCASE("splits one folder deeper") {
    write_classes(folder.path() / "chest_xray/train", 1);
    write_classes(folder.path() / "chest_xray/test", 1, 10);
    CHECK(contains(find_open_error(config), "chest_xray as data.path"));
  }
  SUBCASE("splits without folders of classes") {
    write_image(folder.path() / "train/1.ppm", 9, 9, 1);
    write_image(folder.path() / "test/1.ppm", 9, 9, 2);
    CHECK(contains(find_open_error(config), "named like splits but contain no folder per class"));
  }
  SUBCASE("classes, each of which is divided into splits") {
    for (const char* name : {"cat/train", "cat/test", "dog/train", "dog/test"}) {
      write_image(folder.path() / name / "1.ppm", 9, 9, 1);
    }
    CHECK(contains(find_open_error(config), "which both contain a folder"));
  }
}

TEST_CASE("image_folder: folders without images are not classes, which a note reports") {
  const TemporaryFolder folder;
  write_classes(folder.path(), 3);
  write_text(folder.path() / "__MACOSX/a/._0.ppm", "junk");
  write_image(folder.path() / "@eaDir/0.ppm/thumbnail.ppm", 9, 9, 1);
  write_image(folder.path() / "a/@eaDir/0.ppm/thumbnail.ppm", 9, 9, 1);
  write_text(folder.path() / ".DS_Store", "x");
  fs::create_directories(folder.path() / "c");
  write_text(folder.path() / "docs/readme.txt", "x");
  const Datasets sets = open_datasets(build_config(folder.path()), 1);
  CHECK(sets.classes == std::vector<std::string>{"a", "b"});
  CHECK(labels(*sets.train) == std::vector<std::int32_t>{0, 0, 0, 1, 1, 1});
  CHECK(notes_contain(sets,
                      "4 folders are not used as classes, because they contain no images or were "
                      "made by a system: @eaDir, __MACOSX, c, docs"));
  CHECK(image_files(folder.path().string()).size() == 6);
  config::Data config = build_config(folder.path());
  config.classes = {"a", "b", "c"};
  CHECK(notes_contain(open_datasets(config, 1), "c: contains no images; no image of this class"));
  fs::remove_all(folder.path() / "a");
  fs::remove_all(folder.path() / "b");
  CHECK(contains(find_open_error(build_config(folder.path())), "contains no folder with images"));
}

TEST_CASE("image_folder: a note names the folders of a data set with a copy of itself inside") {
  const TemporaryFolder folder;
  write_classes(folder.path(), 2);
  write_classes(folder.path() / "set", 3, 100);
  write_image(folder.path() / "a/more/b/9.ppm", 9, 9, 200);
  write_image(folder.path() / "b/b/9.ppm", 9, 9, 201);  // the class is the same
  const Datasets sets = open_datasets(build_config(folder.path()), 1);
  CHECK(sets.classes == std::vector<std::string>{"a", "b", "set"});
  CHECK(notes_contain(sets,
                      concat(folder.path().string(),
                             ": 7 images lie in the folder of one class inside the folder of "
                             "another, and get the label of the outer one: a/b, set/a, set/b; ")));
}

TEST_CASE("image_folder and csv: errors escape control characters in names") {
  const TemporaryFolder folder;
  const std::string name = "x\n\x1B[2Jy", shown = "x\\x0a\\x1b[2Jy";
  const auto check = [&](const config::Data& config, const std::string& part) {
    const std::string error = find_open_error(config);
    CAPTURE(error);
    CHECK(contains(error, part));
    CHECK(error.find_first_of("\n\x1B") == std::string::npos);
  };
  write_classes(folder.path() / "train", 1);
  write_classes(folder.path() / "test", 1, 40);
  write_image(folder.path() / "test" / name / "1.ppm", 9, 9, 9);
  check(build_config(folder.path()), shown + ": is not a class: the classes are a, b");
  config::Data glob = build_config("");
  glob.classes = {"a"};
  glob.train.glob = (folder.path() / "test" / "*" / "*.ppm").string();
  check(glob, "its folder 'b' is not a class");
  glob.classes = {"a", "b"};
  check(glob, "its folder '" + shown + "' is not a class");
  config::Data csv = build_config("");
  csv.format = config::DataFormat::kCsv;
  csv.train.path = folder.path() / "list.csv";
  csv.classes = {"a"};
  write_text(csv.train.path, "path,label\n\"" + name + ".ppm\",a\n");
  check(csv, "there is no file ");
  write_text(csv.train.path, "path,label,\"" + name + "\"\n1.ppm,a\n");
  check(csv, "has 2 fields");
  csv.csv.image_column = "none";
  check(csv, "there is no column 'none'; the columns are path, label, " + shown);
}

TEST_CASE("csv: lists named after splits are found by the same names") {
  const TemporaryFolder folder;
  write_image(folder.path() / "1.ppm", 9, 9, 1);
  for (const char* name : {"Training.csv", "labels_valid.csv", "TEST.csv", "other.csv"}) {
    write_text(folder.path() / name, "path,label\n1.ppm,x\n");
  }
  config::Data config = build_config(folder.path());
  config.format = config::DataFormat::kCsv;
  const Datasets sets = open_datasets(config, 1);
  CHECK(sets.train->size() == 1);
  CHECK(sets.validation != nullptr);
  CHECK(sets.test != nullptr);
  write_text(folder.path() / "TRAINING.csv", "path,label\n1.ppm,x\n");
  CHECK(
      contains(find_open_error(config), "which of them is the train split? Give data.train.path"));
}

}  // namespace trainer::data::split_folders_test
