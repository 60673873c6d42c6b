// Zip archives of images, by the program itself.
#include <doctest/doctest.h>
#include <unistd.h>

#include "pictures.h"
#include "support/contains.h"
#include "support/zip_writer.h"

namespace trainer::e2e::zip_test {
namespace {

namespace fs = std::filesystem;

using test::archive_folder;
using test::contains;

// A folder in which the program runs.
struct Here {
  Workspace work;
  Path folder = work / "here";

  Here() { fs::create_directories(folder); }
  Result run(const Arguments& arguments) const {
    Program program(arguments, {{"HOME", folder / "home"}, {"WEIGHTS_DIR", ""}}, [this] {
      if (::chdir(folder.c_str()) != 0) ::_exit(126);
    });
    return program.wait();
  }
  std::string text(const std::string& name) const { return read_text_file(folder / name); }
};

Arguments train(const std::string& source, const Arguments& more = {}) {
  Arguments arguments{"train", source, "--json", "--set", "train.max_steps=2"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

// The folders of splits of two classes.
void write_splits(const Path& folder) {
  write_images(folder / "Training", 12, 1);
  write_images(folder / "val", 4, 2);
  write_images(folder / "test", 3, 3);
}

}  // namespace

TEST_CASE("train: a zip archive of class folders has the result of the unpacked folder") {
  const Here here;
  write_images(here.folder / "unpacked/photos", 12, 1);
  archive_folder(here.folder / "unpacked/photos", here.folder / "photos.zip");
  const Result packed = here.run(train("photos.zip"));
  INFO(packed.err);
  REQUIRE(packed.code == 0);
  CHECK(contains(packed.err, "note: wrote photos.yaml, the config of photos.zip"));
  CHECK(packed.event("finished")["run"] == "runs/photos");
  const std::string config = here.text("photos.yaml");
  CHECK(contains(config, "# Found: 24 training images of 2 classes (left 12, right 12)"));
  CHECK(contains(config, "at least 40 x 36 pixels"));
  CHECK(contains(config, "train: {path: photos.zip, "));
  const Result unpacked = here.run(train("unpacked/photos", {"--run-dir=runs/unpacked"}));
  CHECK(unpacked.code == 2);  // photos.yaml is the config of the archive
  CHECK(contains(unpacked.err, "photos.yaml exists and its data is not in unpacked/photos"));
  REQUIRE(here.run({"new", "unpacked/photos", "--output", "unpacked.yaml"}).code == 0);
  const Result other = here.run(train("unpacked.yaml", {"--run-dir=runs/unpacked"}));
  REQUIRE(other.code == 0);
  check_same(packed.event("finished"), other.event("finished"));

  // The config is used again.
  const Result again = here.run({"data", "photos.zip"});
  INFO(again.err);
  CHECK(again.code == 0);
  CHECK(contains(again.err, "note: photos.yaml exists and is the config of photos.zip"));
  const Result evaluated = here.run({"evaluate", "photos.zip"});
  CHECK(evaluated.code == 3);
  CHECK(contains(evaluated.err,
                 "photos.zip: is a zip archive of images, not a run; `trainer train "
                 "photos.zip` trains"));
}

TEST_CASE("new finds the folders of splits in a zip archive, also in a folder that holds them") {
  for (const std::string top : {"", "photos-main"}) {
    CAPTURE(top);
    const Here here;
    write_splits(here.folder / "unpacked" / top);
    archive_folder(here.folder / "unpacked", here.folder / "photos.zip");
    REQUIRE(here.run({"new", "photos.zip", "--group-by", "/(\\d)\\d*.ppm"}).code == 0);
    const std::string config = here.text("photos.yaml");
    const std::string root = top.empty() ? "photos.zip" : "photos.zip/" + top;
    CHECK(contains(config, "name: photos "));
    CHECK(contains(config, concat("train: {path: ", root, "/Training,")));
    CHECK(contains(config, concat("validation: {path: ", root, "/val}")));
    CHECK(contains(config, concat("test: {path: ", root, "/test}")));
    CHECK(contains(config, "8 to validate, 6 to test"));
    CHECK(contains(config, "24 files in 10 groups"));
    const Result trained = here.run(train("photos.yaml"));
    INFO(trained.err);
    REQUIRE(trained.code == 0);
    CHECK(trained.event("finished")["metrics"]["validation"]["count"] == 8);
    const Result evaluated = here.run({"evaluate", "runs/photos", "--json"});
    CHECK(evaluated.event("evaluated")["count"] == 6);
    // A folder of the archive alone.
    REQUIRE(here.run({"new", root + "/Training", "--output", "one.yaml"}).code == 0);
    CHECK(contains(here.text("one.yaml"), concat("train: {path: ", root, "/Training,")));
    CHECK(contains(here.text("one.yaml"), "name: Training "));
    CHECK(contains(here.text("one.yaml"), "validation_split: 0.2"));
  }
}

TEST_CASE("new: the error of a zip archive without images of two classes has the reason") {
  const Here here;
  write_images(here.folder / "unpacked", 2, 1);
  archive_folder(here.folder / "unpacked/left", here.folder / "flat.zip");
  const Result flat = here.run({"new", "flat.zip"});
  CHECK(flat.code == 3);
  CHECK(contains(flat.err, "flat.zip: has 0 folders with images; expected one for each of"));
  write_splits(here.folder / "splits");
  fs::create_directories(here.folder / "splits/Training/third");
  fs::copy(here.folder / "unpacked/left/0.ppm", here.folder / "splits/Training/third");
  archive_folder(here.folder / "splits", here.folder / "splits.zip");
  const Result third = here.run({"new", "splits.zip"});
  CHECK(third.code == 3);
  CHECK(contains(third.err, "splits.zip/val: has no folder third; expected one for every class"));
  const Result none = here.run({"new", "splits.zip/nothing"});
  CHECK(none.code == 3);
  CHECK(contains(none.err, "splits.zip/nothing: no such file or folder; expected a folder with"));
  write_file_atomic(here.folder / "text.zip", "no archive");
  const Result text = here.run({"train", "text.zip"});
  CHECK(text.code == 3);
  CHECK(contains(text.err, "text.zip: is not a zip archive or is truncated"));
  CHECK(here.run({"new", "missing.zip"}).code == 3);
  CHECK(!fs::exists(here.folder / "flat.yaml"));
}

TEST_CASE("predict accepts an archive, a folder and an image in it") {
  const Here here;
  write_splits(here.folder / "photos");
  archive_folder(here.folder / "photos", here.folder / "photos.zip");
  REQUIRE(here.run(train("photos.zip")).code == 0);
  const auto predict = [&](const std::string& images) {
    return here.run({"predict", "runs/photos", images, "--format", "csv", "--quiet"});
  };
  const Result packed = predict("photos.zip/test"), unpacked = predict("photos/test");
  INFO(packed.err);
  REQUIRE(packed.code == 0);
  CHECK(contains(packed.out, "photos.zip: test/left/0.ppm,"));
  // The rows differ in the names of the images.
  std::string renamed = packed.out;
  for (std::size_t at; (at = renamed.find(".zip: ")) != std::string::npos;) {
    renamed.replace(at, 6, "/");
  }
  CHECK(renamed == unpacked.out);
  const Result left = predict("photos.zip/test/left");
  CHECK(contains(left.out, "photos.zip: test/left/2.ppm,"));
  CHECK(!contains(left.out, "right/"));
  const Result one = predict("photos.zip/test/left/2.ppm");
  REQUIRE(one.code == 0);
  CHECK(std::count(one.out.begin(), one.out.end(), '\n') == 2);
  CHECK(contains(one.out, "photos.zip: test/left/2.ppm,"));
  const Result missing = predict("photos.zip/tests");
  CHECK(missing.code == 3);
  CHECK(
      contains(missing.err, "photos.zip: has no folder 'tests'; its folders are Training, test,"));
  const Result other = predict("other.zip/test");
  CHECK(other.code == 3);
  CHECK(contains(other.err, "other.zip/test: no such file"));
}

TEST_CASE("train: a config beside a zip archive works from another folder") {
  const Here here;
  write_splits(here.folder / "unpacked");
  fs::create_directories(here.folder / "project");
  archive_folder(here.folder / "unpacked", here.folder / "project/photos.zip");
  const auto write_config = [&](const std::string& data) {
    write_file_atomic(here.folder / "project/net.yaml",
                      concat("model: {input: [16, 16, 3], layers: [conv: {filters: 4, kernel_size: "
                             "3}, flatten, dense: 2]}\ndata: {format: image_folder, ",
                             data, "}\ntrain: {max_steps: 2, batch_size: 8}\n"));
  };
  for (const std::string data :
       {"path: photos.zip",
        "train: {path: photos.zip/Training}, validation: {path: photos.zip/val}, "
        "test: {path: photos.zip/test}"}) {
    CAPTURE(data);
    write_config(data);
    const Result trained = here.run({"train", "project/net.yaml", "--json", "--overwrite"});
    INFO(trained.err);
    REQUIRE(trained.code == 0);
    CHECK(trained.event("finished")["metrics"]["validation"]["count"] == 8);
    CHECK(contains(here.text("runs/net/config.yaml"), "path: project/photos.zip"));
    const Result evaluated = here.run({"evaluate", "runs/net", "--json"});
    INFO(evaluated.err);
    REQUIRE(evaluated.code == 0);
    CHECK(evaluated.event("evaluated")["split"] == "test");
    CHECK(evaluated.event("evaluated")["count"] == 6);
  }
  write_config("path: photos.zip");
  const Result set = here.run(train("project/net.yaml", {"--set", "data.path=other.zip"}));
  CHECK(set.code == 3);
  CHECK(contains(set.err,
                 "other.zip: no such file or folder, named by data.path. Give its place with"));
  fs::remove(here.folder / "project/photos.zip");
  const Result missing = here.run(train("project/net.yaml"));
  CHECK(missing.code == 3);
  CHECK(contains(missing.err,
                 "photos.zip: no such file or folder, named by data.path; nor is there "
                 "project/photos.zip beside the config. Give its place with"));
}

}  // namespace trainer::e2e::zip_test
