#include "data/images/listing/relabel.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "commands/data/check_print.h"
#include "data/check.h"
#include "data/images/image_files.h"

namespace trainer::data::relabel_test {
namespace {

// Split folders with the classes cat and dog: train/{cat,dog}/{1,2,3}, test/{cat,dog}/{1,2}.
struct Photos {
  TemporaryFolder files;
  config::Data config = build_config(files.path());

  Photos() {
    int seed = 0;
    for (const char* split : {"train", "test"}) {
      for (const char* name : {"cat", "dog"}) {
        for (int i = 1; i <= (split[1] == 'r' ? 3 : 2); ++i) {
          write_image(files.path() / split / name / concat(i, ".ppm"), 9, 9, ++seed);
        }
      }
    }
    config.relabel = (files.path() / "fixes.csv").string();
  }
  void fix(const std::string& rows) const { write_text(config.relabel, "path,label\n" + rows); }
  std::string find_error(const std::string& rows) const {
    fix(rows);
    return find_open_error(config);
  }
};

// Returns the labels of a split with its files: "cat/1=0 dog/2=1".
std::string list_samples(const Dataset& set) {
  std::string text;
  for (std::int64_t i = 0; i < set.size(); ++i) {
    const fs::path path = set.describe(i);
    text += concat(i == 0 ? "" : " ", path.parent_path().filename().string(), '/',
                   path.stem().string(), '=', set.label_at(i));
  }
  return text;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("data.relabel: rows change labels in every split, and empty labels leave images out") {
  const Photos photos;
  write_text(photos.config.relabel,
             concat("score,label,path,suggested_label\n0.9,dog,train/cat/1.ppm,dog\n0.8,,",
                    (photos.files.path() / "train/dog/2.ppm").string(),
                    ",cat\n0.7,cat,train\\cat\\2.ppm,\n0.5,1,./test/cat/2.ppm,\n"));
  const Datasets sets = open_datasets(photos.config, 1);
  CHECK(list_samples(*sets.train) == "cat/1=1 cat/2=0 cat/3=0 dog/1=1 dog/3=1");
  CHECK(list_samples(*sets.test) == "cat/1=0 cat/2=1 dog/1=1 dog/2=1");
  CHECK(labels(*sets.train) == std::vector<std::int32_t>{1, 0, 0, 1, 1});
  CHECK(sets.relabel_notice.kind == Notice::Kind::kNote);
  CHECK(sets.relabel_notice.text == concat("data.relabel: ", photos.config.relabel,
                                           " changes 2 labels and leaves out 1 image"));
}

TEST_CASE(
    "data.relabel: rows with the labels of the data change nothing, the fingerprint included") {
  Photos photos;
  photos.fix("train/cat/1.ppm,cat\ntrain/dog/1.ppm,dog\ntrain/dog/1.ppm,dog\n");
  const Datasets relabelled = open_datasets(photos.config, 1);
  CHECK(contains(relabelled.relabel_notice.text, "changes 0 labels and leaves out 0 images"));
  photos.config.relabel = "";
  const Datasets plain = open_datasets(photos.config, 1);
  CHECK(plain.relabel_notice.text.empty());
  CHECK(list_samples(*relabelled.train) == list_samples(*plain.train));
  CHECK(relabelled.train->fingerprint() == plain.train->fingerprint());
}

TEST_CASE("data.relabel: a changed file gives another fingerprint, which a resume compares") {
  const Photos photos;
  photos.fix("train/cat/1.ppm,dog\n");
  const std::string first = open_datasets(photos.config, 1).train->fingerprint();
  photos.fix("train/cat/2.ppm,dog\n");
  CHECK(open_datasets(photos.config, 1).train->fingerprint() != first);
  photos.fix("train/cat/1.ppm,\n");
  CHECK(open_datasets(photos.config, 1).train->fingerprint() != first);
}

TEST_CASE("data.relabel: the images of a list are named as in the list, and a line is relabelled") {
  Photos photos;
  write_text(photos.files.path() / "lists/train.csv",
             "path,label,patient\ntrain/cat/1,cat,a\ntrain/cat/2,cat,a\ntrain/dog/1,dog,b\n"
             "train/dog/2,dog,c\n");
  photos.config.format = config::DataFormat::kCsv;
  photos.config.path = "";
  photos.config.train.path = (photos.files.path() / "lists/train.csv").string();
  photos.config.csv.root = photos.files.path().string();
  photos.config.csv.ending = ".ppm";
  photos.config.group_by = "patient";
  photos.fix("train/cat/1,dog\ntrain/dog/1.ppm,\n");
  const Datasets sets = open_datasets(photos.config, 1);
  CHECK(list_samples(*sets.train) == "cat/1=1 cat/2=0 dog/2=1");
  CHECK(sets.train->group_at(0) == "a");
  CHECK(sets.train->group_at(2) == "c");
  // The advice on a file that does not exist names the right line after images were left out.
  write_text(photos.files.path() / "lists/train.csv",
             "path,label,patient\ntrain/cat/1,cat,a\ntrain/cat/2,cat,a\ntrain/dog/1,dog,b\n"
             "train/dog/9,dog,c\n");
  CHECK(contains(find_open_error(photos.config), "train.csv:5: there is no file"));
  // A line whose file does not exist can be left out.
  photos.fix("train/dog/9,\n");
  CHECK(list_samples(*open_datasets(photos.config, 1).train) == "cat/1=0 cat/2=0 dog/1=1");
}

TEST_CASE("data.relabel: validation_split and folds divide by the new labels") {
  Photos photos;
  fs::remove_all(photos.files.path() / "test");
  for (int i = 4; i <= 8; ++i) {
    write_image(photos.files.path() / "train/cat" / concat(i, ".ppm"), 9, 9, 100 + i);
  }
  // Three images move from cat (8) to dog (3): 5 and 6.
  photos.fix("train/cat/1.ppm,dog\ntrain/cat/2.ppm,dog\ntrain/cat/3.ppm,dog\n");
  photos.config.folds = 2;
  photos.config.fold = 1;
  const Datasets folds = open_datasets(photos.config, 1);
  const std::vector<std::int32_t> aside = labels(*folds.validation);
  CHECK(std::count(aside.begin(), aside.end(), 1) == 3);
  CHECK(labels(*folds.train).size() + aside.size() == 11);
  photos.config.fold.reset();
  photos.config.folds.reset();
  photos.config.validation_split = 0.5;
  const DataCheck check = check_images(photos.config, 1, "");
  REQUIRE(check.splits.size() == 2);
  CHECK(check.splits[0].per_class[0] + check.splits[1].per_class[0] == 5);
  CHECK(check.splits[1].per_class[1] == 3);
}

TEST_CASE("data.relabel: corrections are made before data.on_conflict looks for conflicts") {
  Photos photos;
  fs::copy_file(photos.files.path() / "train/cat/1.ppm", photos.files.path() / "train/dog/4.ppm");
  photos.config.on_conflict = config::OnConflict::kDrop;
  photos.fix("train/dog/4.ppm,cat\n");
  const Datasets sets = open_datasets(photos.config, 1);
  CHECK(list_samples(*sets.train) == "cat/1=0 cat/2=0 cat/3=0 dog/1=1 dog/2=1 dog/3=1 dog/4=0");
}

TEST_CASE("check_images: data.relabel is applied, and its counts are printed") {
  const Photos photos;
  photos.fix("train/cat/1.ppm,dog\ntest/dog/1.ppm,\n");
  const DataCheck check = check_images(photos.config, 1, "");
  REQUIRE(check.splits.size() == 2);
  CHECK(check.splits[0].per_class == std::vector<std::int64_t>{2, 4});
  CHECK(check.splits[1].per_class == std::vector<std::int64_t>{2, 1});
  REQUIRE(check.relabel);
  CHECK(check.relabel->changed == 1);
  CHECK(check.relabel->dropped == 1);
  CHECK(contains(commands::to_text(check), "fixes.csv changes 1 label and leaves out 1 image\n"));
  CHECK(contains(commands::to_json(check), R"("changed":1,"dropped":1})"));
}

TEST_CASE("data.relabel: a wrong row is an error with the file and the line") {
  const Photos photos;
  std::string error = photos.find_error("train/cat/1.ppm,dog\ntrain/cat/7.ppm,dog\n");
  CHECK(contains(error, "fixes.csv:3: the path 'train/cat/7.ppm' is not an image of the data; "));
  error = photos.find_error("x.ppm,dog\ny.ppm,dog\n");
  CHECK(contains(error,
                 "fixes.csv:2: the path 'x.ppm' is not an image of the data, nor are those "
                 "of 1 more lines"));
  error = photos.find_error("train/cat/1.ppm,fox\n");
  CHECK(contains(error, "fixes.csv:2: the label 'fox' is not a class; the classes are cat, dog"));
  CHECK(contains(error, "or leave the label empty to leave the image out"));
  error = photos.find_error(concat("train/cat/1.ppm,dog\n\n",
                                   (photos.files.path() / "train/cat/1.ppm").string(), ",cat\n"));
  CHECK(contains(error, "fixes.csv:4: gives '"));
  CHECK(contains(error, "but line 2 gives the same image the label 'dog'; remove one"));
  error = photos.find_error("train/cat/1.ppm,dog\ntrain/cat/1.ppm,\n");
  CHECK(contains(error, "fixes.csv:3: gives 'train/cat/1.ppm' the label ''"));
  // Counted from the folder of the split, the path could be that of either split.
  error = photos.find_error("cat/1.ppm,dog\n");
  CHECK(contains(error, "fixes.csv:2: the path 'cat/1.ppm' names several images, "));
  CHECK(photos.find_error("cat/3.ppm,dog\n").empty());
  CHECK(contains(photos.find_error("train/cat/1.ppm\n"), "fixes.csv:2: has 1 fields; expected 2"));
  CHECK(contains(photos.find_error(",dog\n"), "fixes.csv:2: has no path"));
  error = photos.find_error("train/cat/1.ppm,\ntrain/cat/2.ppm,dog\ntrain/cat/3.ppm,\n");
  CHECK(contains(error, "leaves no training image of the class cat; "));
  error = photos.find_error("test/cat/1.ppm,\ntest/cat/2.ppm,\ntest/dog/1.ppm,\ntest/dog/2.ppm,\n");
  CHECK(contains(error, "leaves no image of the test split"));
}

TEST_CASE("data.relabel: a file that is missing or has other columns is an error") {
  Photos photos;
  CHECK(contains(find_open_error(photos.config), "fixes.csv: no such file, named by data.relabel"));
  write_text(photos.config.relabel, "");
  CHECK(contains(find_open_error(photos.config), "fixes.csv: is empty; "));
  write_text(photos.config.relabel, "image,label\ntrain/cat/1.ppm,dog\n");
  CHECK(contains(find_open_error(photos.config),
                 "fixes.csv:1: has no column 'path', but image, label; "));
  write_text(photos.config.relabel, "path,class\ntrain/cat/1.ppm,dog\n");
  CHECK(contains(find_open_error(photos.config), "fixes.csv:1: has no column 'label'"));
}

TEST_CASE("data.relabel: an evaluation of one split does not need the images of the others") {
  Photos photos;
  const std::string folder = photos.files.path().string();
  photos.fix(concat(folder, "/train/cat/1.ppm,dog\n", folder, "/test/cat/1.ppm,dog\n"));
  photos.config.classes = {"cat", "dog"};
  photos.config.path = "";
  photos.config.test.path = folder + "/test";
  fs::remove_all(photos.files.path() / "train");
  const Datasets sets = open_datasets(photos.config, 1, Split::kTest);
  CHECK(list_samples(*sets.test) == "cat/1=1 cat/2=0 dog/1=1 dog/2=1");
}

TEST_CASE("data.relabel: images with several labels are rejected") {
  Photos photos;
  write_text(photos.files.path() / "train.csv",
             "path,red,blue\ntrain/cat/1.ppm,1,0\ntrain/cat/2.ppm,1,1\ntrain/dog/1.ppm,0,1\n");
  photos.config.format = config::DataFormat::kCsv;
  photos.config.path = "";
  photos.config.train.path = (photos.files.path() / "train.csv").string();
  photos.config.columns_are_labels = true;
  CHECK(contains(photos.find_error("train/cat/1.ppm,red\n"),
                 "data.relabel works with one class per image, but the images of "));
}

}  // namespace trainer::data::relabel_test
