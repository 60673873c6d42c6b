// What errors in lists, corrections and archives of images advise: each advice is followed, and the
// images are then read.
#include <doctest/doctest.h>

#include <filesystem>

#include "advice.h"
#include "base/error.h"
#include "support/contains.h"
#include "support/zip_writer.h"

namespace trainer::e2e::data_advice_test {
namespace {

namespace fs = std::filesystem;

using test::contains;

// A text of a file, and the options of `data`.
struct Variant {
  std::string content;
  std::string options = "";
};

struct FileAdvice {
  Variant failed;
  const char* text;  // a part of the message
  std::vector<Variant> followed;
};

// Writes each text to this file and gives the command with its options.
void check_files(const AdvicePlace& place, const std::string& file, const std::string& command,
                 const std::vector<FileAdvice>& advices) {
  const auto give = [&](const Variant& variant) {
    write_file_atomic(place.with_paths(file), place.with_paths(variant.content));
    return place.run(command + " " + variant.options);
  };
  for (const FileAdvice& advice : advices) {
    INFO(std::string(advice.text));
    const Result failed = give(advice.failed);
    CHECK((failed.code == kExitConfig || failed.code == kExitData));
    CHECK_MESSAGE(contains(failed.err, advice.text), failed.err);
    for (const Variant& variant : advice.followed) {
      INFO(variant.content, variant.options);
      const Result followed = give(variant);
      CHECK_MESSAGE(followed.code == 0, followed.err);
    }
  }
}

std::string set(const std::string& setting) { return concat("--set '", setting, "' "); }

std::vector<FileAdvice> make_relabel_advices() {
  const std::string header = "path,label\n", elsewhere = set("data.path=\"\"") +
                                                         set("data.train.path=IMAGES") +
                                                         set("data.validation.path=BESIDE");
  std::string all_right = header;
  for (int i = 0; i < 6; ++i) all_right += concat("left/", i, ".ppm,right\n");
  std::string others_left_out;
  for (const char* name : {"left", "right"}) {
    for (int i = 1; i < 6; ++i) others_left_out += concat("BESIDE/", name, "/", i, ".ppm,\n");
  }
  const std::string rest = header + others_left_out + "BESIDE/right/0.ppm,\n";
  return {
      {{"path,label,label\nleft/0.ppm,right,right\n"},
       "has two columns 'label'; remove one",
       {{"path,label\nleft/0.ppm,right\n"}}},
      {{"image,class\nleft/0.ppm,right\n"},
       "begins with a header that has the columns path and label",
       {{"path,label\nleft/0.ppm,right\n"}}},
      {{""}, "begins with a header that has the columns path and label", {{header}}},
      {{header + "left/0.ppm\n"}, "has 1 fields; expected 2", {{header + "left/0.ppm,right\n"}}},
      {{header + ",right\n"},
       "has no path; name an image of the data",
       {{header + "left/0.ppm,right\n"}}},
      {{header + "left/0.ppm,middle\n"},
       "Give a class of the data, or leave the label empty to leave the image out",
       {{header + "left/0.ppm,right\n"}, {header + "left/0.ppm,\n"}}},
      {{header + "left/0.ppm,right\nleft/0.ppm,left\n"},
       "remove one of these lines",
       {{header + "left/0.ppm,right\n"}, {header + "left/0.ppm,left\n"}}},
      {{all_right},
       "to remove a class, move its images or change the list of images",
       {{all_right + "right/0.ppm,left\n"}}},
      {{header + "0.ppm,right\n"},
       "write it as `trainer data` prints it, or counted from data.path or from the folder of the "
       "list, or remove the line",
       {{header + "IMAGES/left/0.ppm,right\n"}, {header + "left/0.ppm,right\n"}, {header}}},
      {{header + "left/0.ppm,right\n", elsewhere},
       "write one of these paths",
       {{header + "IMAGES/left/0.ppm,right\n", elsewhere},
        {header + "BESIDE/left/0.ppm,right\n", elsewhere}}},
      {{rest + "BESIDE/left/0.ppm,\n", elsewhere},
       "leaves no image of the validation split",
       {{rest + "BESIDE/left/0.ppm,left\n", elsewhere}}},
  };
}

std::vector<FileAdvice> make_list_advices() {
  const std::string two = "images/left/0.ppm,left\nimages/right/0.ppm,right\n";
  const std::string several =
      set("data.csv.label_separator=\"|\"") + set("model.loss=binary_cross_entropy");
  std::string one_hot = "path,left,right\nimages/left/0.ppm,1,0\nimages/right/0.ppm,0,1\n";
  return {
      {{"file,kind\n" + two},
       "Name the columns with data.csv: {image_column: file, label_column: kind}",
       {{"file,kind\n" + two, set("data.csv={image_column: file, label_column: kind}")}}},
      {{"path,kind,colour\nimages/left/0.ppm,left,red\nimages/right/0.ppm,right,blue\n"},
       "Name it with data.csv: {image_column: path, label_column: NAME}",
       {{"path,kind,colour\nimages/left/0.ppm,left,red\nimages/right/0.ppm,right,blue\n",
         set("data.csv={image_column: path, label_column: kind}")}}},
      {{"path;label\nimages/left/0.ppm;left\nimages/right/0.ppm;right\n",
        set("data.csv.separator=\",\"")},
       "has one field; expected path,label, or give data.csv: {separator: ...}",
       {{"path,label\n" + two},
        {"path;label\nimages/left/0.ppm;left\nimages/right/0.ppm;right\n",
         set("data.csv={separator: ;}")}}},
      {{one_hot + "images/left/1.ppm,1,1\n"},
       "Give this loss for several labels per image, or name the column of labels",
       {{one_hot + "images/left/1.ppm,1,1\n", set("model.loss=binary_cross_entropy")},
        {one_hot, ""}}},
      {{"path,label\nimages/left/0.ppm,left\nimages/right/0.ppm,right\nimages/left/"
        "1.ppm,left|right\n"},
       "For several labels per image give data.csv: {label_separator: '|'} and model.loss: "
       "binary_cross_entropy; if these are names of classes, list them in data.classes",
       {{"path,label\nimages/left/0.ppm,left\nimages/right/0.ppm,right\n"
         "images/left/1.ppm,left|right\n",
         several},
        {"path,label\nimages/left/0.ppm,left\nimages/right/0.ppm,right\n"
         "images/left/1.ppm,left|right\n",
         set("data.classes=[left, right, \"left|right\"]")}}},
      {{"path,label\n" + two, set("data.class_order=number")},
       "is not a number; remove data.class_order: number",
       {{"path,label\n" + two}}},
      {{"path,label\nimages/left/0.ppm,1.5\nimages/right/0.ppm,1.50\n",
        set("data.class_order=number")},
       "are the same number; write both the same way",
       {{"path,label\nimages/left/0.ppm,1.5\nimages/right/0.ppm,1.5\nimages/right/1.ppm,0\n",
         set("data.class_order=number")}}},
      {{"path,label\nimages/left/0.ppm,0\nimages/right/0.ppm,90000\n"},
       "number the classes from 0, or name them with data.classes",
       {{"path,label\nimages/left/0.ppm,0\nimages/right/0.ppm,1\n"},
        {"path,label\nimages/left/0.ppm,0\nimages/right/0.ppm,90000\n",
         set("data.classes=[\"0\", \"90000\"]")}}},
      {{"path,a,b\nimages/left/0.ppm,1,-1\nimages/right/0.ppm,0,1\nimages/right/1.ppm,1,1\n",
        set("model.loss=binary_cross_entropy")},
       "give data.csv.uncertain: ignore (unknown), 0 or 1 for what it counts as, or name the "
       "columns of labels in data.classes",
       {{"path,a,b\nimages/left/0.ppm,1,-1\nimages/right/0.ppm,0,1\nimages/right/1.ppm,1,1\n",
         set("model.loss=binary_cross_entropy") + set("data.csv.uncertain=0")},
        {"path,a,b,c\nimages/left/0.ppm,1,-1,0\nimages/right/0.ppm,0,1,1\n"
         "images/right/1.ppm,1,1,1\n",
         set("model.loss=binary_cross_entropy") + set("data.classes=[a, c]")}}},
  };
}

void write_archive(const AdvicePlace& place, const std::vector<test::ZipEntry>& entries) {
  write_file_atomic(place.with_paths("ARCHIVE"), test::pack_zip(entries));
}

}  // namespace

TEST_CASE("messages: the corrections that follow each advice on data.relabel are read") {
  const AdvicePlace place;
  write_images(place.with_paths("BESIDE"), 6, 2);
  check_files(place, "FIX", "data PHOTOS --set data.relabel=FIX", make_relabel_advices());
  const AdvicePlace other;
  const Result missing = other.run("data PHOTOS --set data.relabel=FIX");
  CHECK(missing.code == kExitData);
  CHECK_MESSAGE(contains(missing.err,
                         "Give its place with --set data.relabel=NEW, or use the labels of the "
                         "data with --set 'data.relabel=\"\"'"),
                missing.err);
  write_file_atomic(other.with_paths("FREE"), std::string_view("path,label\n"));
  other.check_success("data PHOTOS --set data.relabel=FIX --set data.relabel=FREE");
  other.check_success("data PHOTOS --set data.relabel=FIX --set 'data.relabel=\"\"'");
}

TEST_CASE("messages: the list that follows each advice on a list of images is read") {
  check_files(AdvicePlace(), "LIST", "data LISTED", make_list_advices());
}

TEST_CASE("messages: the archive that follows each advice on a zip archive is read") {
  const AdvicePlace place;
  const auto read = [&](const std::string& image) {
    return read_text_file(place.with_paths("IMAGES/" + image));
  };
  const std::vector<test::ZipEntry> fine{{"left/1.ppm", read("left/1.ppm")},
                                         {"right/1.ppm", read("right/1.ppm")}};
  const std::string content = read("left/2.ppm");
  struct ArchiveAdvice {
    test::ZipEntry entry;
    const char* text;
    std::vector<test::ZipEntry> followed;
    std::string options = "";
  };
  for (const ArchiveAdvice& advice :
       std::vector<ArchiveAdvice>{{{"../left/2.ppm", content},
                                   "pack the images again, with names such as cats/1.jpg",
                                   {{"left/2.ppm", content}}},
                                  {{"left/" + std::string(5000, 'x') + ".ppm", content},
                                   "pack the images again",
                                   {{"left/2.ppm", content}}}}) {
    INFO(std::string(advice.text));
    std::vector<test::ZipEntry> entries = fine;
    entries.push_back(advice.entry);
    write_archive(place, entries);
    const std::string command = "data PHOTOS --set data.path=ARCHIVE " + advice.options;
    const Result failed = place.run(command);
    CHECK(failed.code == kExitData);
    CHECK_MESSAGE(contains(failed.err, advice.text), failed.err);
    entries = fine;
    entries.insert(entries.end(), advice.followed.begin(), advice.followed.end());
    write_archive(place, entries);
    place.check_success(command);
  }
  // A folder of the archive that is not a class.
  std::vector<test::ZipEntry> entries = fine;
  entries.push_back({"middle/1.ppm", content});
  write_archive(place, entries);
  const std::string command = "data PHOTOS --set data.path=ARCHIVE --set ";
  const Result failed = place.run(command + "'data.classes=[left, right]'");
  CHECK(failed.code == kExitData);
  CHECK_MESSAGE(contains(failed.err, "name it in data.classes or move it elsewhere"), failed.err);
  place.check_success(command + "'data.classes=[left, middle, right]'");
  write_archive(place, fine);
  place.check_success(command + "'data.classes=[left, right]'");
}

TEST_CASE("messages: the command that follows each advice on groups and divisions succeeds") {
  check_each({
      {"group_by: one group",
       {},
       "data PHOTOS --set 'data.group_by=(images)' --set data.validation_split=0.25",
       "give a pattern whose first parentheses enclose what differs between groups",
       "data PHOTOS --set 'data.group_by=images/\\w+/(\\d+)' --set data.validation_split=0.25"},
      {"group_by: too few groups",
       {},
       "train PHOTOS --run-dir RUN --set 'data.group_by=(left|right)' --set data.folds=5 --fold 1",
       "give more samples, fewer parts or smaller groups",
       "+ --set data.folds=2"},
      {"group_by: too few groups, smaller groups",
       {},
       "train PHOTOS --run-dir RUN --set 'data.group_by=(left|right)' --set data.folds=5 --fold 1",
       "give more samples, fewer parts or smaller groups",
       "+ --set 'data.group_by=(left/.|right/.)'"},
      {"group_by: a column for images in folders",
       {},
       "data LISTED --set data.group_by=patient --set data.validation_split=0.25",
       "needs parentheses, e.g. '(person\\d+)'",
       "data LISTED --set 'data.group_by=(left/.|right/.)' --set data.validation_split=0.25"},
      {"data --group-by: arrays",
       {},
       "data DIGITS --group-by '(a+)'",
       "is one of arrays; remove the option",
       "data DIGITS"},
      {"drop_remainder: less than a batch",
       {},
       "train PHOTOS --run-dir RUN --set data.drop_remainder=true --batch-size 100",
       "lower train.batch_size, or remove drop_remainder",
       "+ --batch-size 12"},
      {"drop_remainder: less than a batch, removed",
       {},
       "train PHOTOS --run-dir RUN --set data.drop_remainder=true --batch-size 100",
       "lower train.batch_size, or remove drop_remainder",
       "train PHOTOS --run-dir RUN --batch-size 100"},
      {"on_conflict: each photo in several classes, labels corrected",
       {},
       "train PHOTOS --run-dir RUN --set data.on_conflict=drop --set data.relabel=FIX",
       "correct the labels, or set data.on_conflict: keep",
       "+ --set data.on_conflict=keep",
       [](const AdvicePlace& place) {
         fs::remove_all(place.work / "images/right");
         fs::copy(place.work / "images/left", place.work / "images/right");
         write_file_atomic(place.work / "fix.csv", std::string_view("path,label\n"));
       }},
      {"splits: an unnamed folder",
       {},
       "data PHOTOS --set 'data={format: image_folder, path: FREE, resize: [32, 32]}'",
       "as data.path",
       "data PHOTOS --set 'data={format: image_folder, path: FREE/photos, resize: [32, 32]}'",
       [](const AdvicePlace& place) {
         write_images(place.work / "free/photos/train", 6, 1);
         write_images(place.work / "free/photos/validation", 6, 2);
       }},
  });
}

}  // namespace trainer::e2e::data_advice_test
