#include "data/images/conflicts.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "commands/data/check_print.h"
#include "data/check.h"
#include "data/images/image_files.h"

namespace trainer::data::conflicts_test {
namespace {

using commands::to_json;
using commands::to_text;

using config::OnConflict;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// Classes a, b and c. The photo "same" is twice in a and once in b, "other" in b and c; each class
// has a photo of its own.
struct Folder {
  TemporaryFolder files;
  config::Data config = build_config(files.path());

  Folder() {
    write("a/own", 1);
    write("a/same", 7);
    write("a/same_again", 7);
    write("b/own", 2);
    write("b/same", 7);
    write("b/other", 8);
    write("c/other", 8);
    write("c/own", 3);
  }
  void write(const std::string& name, int seed) const {
    write_image(files.path() / (name + ".ppm"), 9, 9, seed);
  }
  // The files of the training split: "a/own a/same".
  std::string list(OnConflict policy) {
    config.on_conflict = policy;
    const Datasets sets = open_datasets(config, 1);
    std::string text;
    for (std::int64_t i = 0; i < sets.train->size(); ++i) {
      const fs::path path = sets.train->describe(i);
      text += concat(text.empty() ? "" : " ", path.parent_path().filename().string(), '/',
                     path.stem().string());
    }
    return text;
  }
  std::vector<std::string> find_warnings() const {
    return open_datasets(config, 1).train_files->damage().left_aside;
  }
};

}  // namespace

TEST_CASE("data.on_conflict: keep, drop and first decide which files of a photo are samples") {
  Folder folder;
  CHECK(folder.list(OnConflict::kKeep) ==
        "a/own a/same a/same_again b/other b/own b/same c/other c/own");
  REQUIRE(folder.find_warnings().size() == 1);
  CHECK(contains(folder.find_warnings()[0], ": 2 photos are in several classes, e.g. "));
  CHECK(folder.list(OnConflict::kDrop) == "a/own b/own c/own");
  std::vector<std::string> warnings = folder.find_warnings();
  REQUIRE(warnings.size() == 1);
  CHECK(contains(warnings[0],
                 "data.on_conflict: drop leaves out 5 files of 2 photos that have "
                 "several classes, e.g. "));
  CHECK(contains(warnings[0], "same.ppm (a) = "));
  CHECK(warnings[0].ends_with("same.ppm (b)"));
  CHECK(folder.list(OnConflict::kFirst) == "a/own a/same a/same_again b/other b/own c/own");
  warnings = folder.find_warnings();
  REQUIRE(warnings.size() == 1);
  CHECK(contains(warnings[0], "data.on_conflict: first leaves out 2 files of 2 photos"));
}

TEST_CASE("data.on_conflict: the bytes decide, not the size or the name") {
  Folder folder;
  folder.write("b/own_2", 11);  // of the size of all others
  folder.write("c/same", 12);   // of the name of others
  CHECK(folder.list(OnConflict::kDrop) == "a/own b/own b/own_2 c/own c/same");
  // Each split has conflicts of its own: a photo of training may be in another class of test.
  Folder divided;
  fs::create_directories(divided.files.path() / "train");
  for (const char* name : {"a", "b", "c"}) {
    fs::rename(divided.files.path() / name, divided.files.path() / "train" / name);
    divided.write(concat("test/", name, "/x"), 7);
  }
  divided.write("test/b/y", 2);
  divided.write("test/c/y", 1);
  divided.config.on_conflict = OnConflict::kFirst;
  const Datasets sets = open_datasets(divided.config, 1);
  CHECK(sets.train->size() == 6);
  CHECK(labels(*sets.test) == std::vector<std::int32_t>{0, 1, 2});
}

TEST_CASE("data.on_conflict: in a csv the first line decides, before data.limit") {
  Folder folder;
  write_text(folder.files.path() / "list.csv",
             "path,label\nb/same.ppm,b\na/same.ppm,a\na/own.ppm,a\nb/own.ppm,b\n");
  folder.config.format = config::DataFormat::kCsv;
  folder.config.path = "";
  folder.config.train.path = (folder.files.path() / "list.csv").string();
  CHECK(folder.list(OnConflict::kFirst) == "b/same a/own b/own");
  CHECK(folder.list(OnConflict::kDrop) == "a/own b/own");
  folder.config.limit = 2;
  CHECK(folder.list(OnConflict::kDrop) == "a/own b/own");
  write_text(folder.files.path() / "list.csv", "path,label\nb/same.ppm,b\na/same.ppm,a\n");
  CHECK_THROWS_WITH_AS(folder.list(OnConflict::kDrop),
                       doctest::Contains("drop leaves no file of classes a (1 file), b (1 file)"),
                       DataError);
}

TEST_CASE("data.on_conflict: the error of a class without a photo of its own names it") {
  Folder folder;
  fs::remove(folder.files.path() / "c" / "own.ppm");
  folder.write("a/second", 5);
  folder.write("b/other", 9);
  folder.write("c/other", 1);  // the photo of a/own
  for (const OnConflict policy : {OnConflict::kDrop, OnConflict::kFirst}) {
    const std::string wanted =
        concat("data.on_conflict: ", spell(policy), " leaves no file of class c (1 file)");
    CHECK_THROWS_WITH_AS(folder.list(policy), doctest::Contains(wanted.c_str()), DataError);
  }
  // What the message advises.
  CHECK(folder.list(OnConflict::kKeep) ==
        "a/own a/same a/same_again a/second b/other b/own b/same c/other");
}

TEST_CASE("check_images: photos in several classes, one of them set aside, are counted") {
  Folder folder;
  folder.config.validation_split = 0.5;
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    CAPTURE(seed);
    CHECK(check_images(folder.config, seed, "").conflicts == 2);
  }
}

TEST_CASE("check_images counts photos in several classes, which data.on_conflict removes") {
  Folder folder;
  DataCheck check = check_images(folder.config, 1, "");
  CHECK(check.conflicts == 2);
  CHECK(!check.clean());
  CHECK(
      contains(to_text(check),
               "photos in several classes of a split: 2; data.on_conflict: drop leaves them out"));
  CHECK(contains(to_json(check), R"("conflicts":2)"));
  for (const OnConflict policy : {OnConflict::kDrop, OnConflict::kFirst}) {
    folder.config.on_conflict = policy;
    check = check_images(folder.config, 1, "");
    CHECK(check.conflicts == 0);
    CHECK(check.clean());
    CHECK(check.splits[0].per_class == (policy == OnConflict::kDrop
                                            ? std::vector<std::int64_t>{1, 1, 1}
                                            : std::vector<std::int64_t>{3, 2, 1}));
    REQUIRE(check.splits[0].notes.size() == 1);
    CHECK(contains(check.splits[0].notes[0], "data.on_conflict: "));
  }
}

}  // namespace trainer::data::conflicts_test
