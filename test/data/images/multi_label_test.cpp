// Lists that give an image several labels.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/files/files.h"
#include "base/text.h"
#include "config/sections/augmentation.h"
#include "data/check.h"
#include "data/common_data.h"
#include "data/image_split.h"
#include "data/images/image_files.h"
#include "data/images/image_reader.h"
#include "data/images/listing/image_list.h"
#include "data/open.h"
#include "data/samples/mix.h"
#include "data/samples/weights.h"

namespace trainer::data::multi_label_test {
namespace {

// Returns the number of labels that all sets hold in memory.
std::size_t count_labels(const LabelSets& sets) {
  std::size_t count = 0;
  for (std::int32_t set = 0; set < sets.size(); ++set) {
    count += sets.at(set).present.size() + sets.at(set).unknown.size();
  }
  return count;
}

struct Folder {
  TemporaryFolder files;
  config::Data config = build_config("");

  Folder() {
    for (int i = 0; i < 6; ++i) write_image(files.path() / concat("x_", i, ".ppm"), 8, 6, i);
    config.format = config::DataFormat::kCsv;
    config.train.path = (files.path() / "train.csv").string();
    config.columns_are_labels = true;
  }

  // Writes a list of the images in order, one per row of `cells`.
  void write(const std::string& name, const std::string& header,
             const std::vector<std::string>& cells) const {
    std::string text = header + "\n";
    for (std::size_t i = 0; i < cells.size(); ++i) text += concat("x_", i, ".ppm,", cells[i], "\n");
    write_text(files.path() / name, text);
  }

  // Returns the labels and the targets of each image: "a, b: 01 1?"; or the error behind the path.
  std::string read(const std::string& header, const std::vector<std::string>& cells) const {
    write("train.csv", header, cells);
    try {
      return text(open_datasets(config, 1), Split::kTrain);
    } catch (const DataError& error) {
      return std::string(error.what()).substr(config.train.path.size());
    }
  }

  static std::string text(const Datasets& sets, Split split) {
    const Dataset& set = *sets.dataset(split);
    std::string result = join(sets.classes) + ":";
    for (std::int64_t i = 0; i < set.size(); ++i) {
      result += ' ';
      std::vector<std::byte> image(set.spec().image_bytes());
      std::vector<float> label(static_cast<std::size_t>(set.spec().label_width));
      set.get(i, image.data(), label.data());
      std::vector<std::int32_t> present, unknown;
      for (std::size_t k = 0; k < label.size(); ++k) {
        result += std::isnan(label[k]) ? '?' : label[k] == 1 ? '1' : label[k] == 0 ? '0' : 'x';
        if (label[k] == 1) present.push_back(static_cast<std::int32_t>(k));
        if (std::isnan(label[k])) unknown.push_back(static_cast<std::int32_t>(k));
      }
      const LabelSet labels = set.label_set_at(i);
      CHECK(std::ranges::equal(labels.present, present));
      CHECK(std::ranges::equal(labels.unknown, unknown));
      CHECK(set.label_at(i) == -1);
    }
    return result;
  }
};

}  // namespace

TEST_CASE("csv: columns of 0 and 1 are labels, empty cells and NaN are unknown") {
  const Folder folder;
  CHECK(folder.read("image,mass,edema", {"0,1", "1,1", "0,0", ",1", "1.0,nan", "NA,0.0"}) ==
        "mass, edema: 01 11 00 ?1 1? ?0");
  // Columns of other values, and the weights, are not labels.
  CHECK(folder.read("image,age,mass,edema,sample_weight", {"40,0,1,1", "41,1,1,1"}) ==
        "mass, edema: 01 11");
  // Each row has one label, which is still one of several.
  CHECK(folder.read("image,a,b,c", {"1,0,0", "0,1,0", "0,0,1"}) == "a, b, c: 100 010 001");
  CHECK(
      folder.read("image,mass,edema", {"0,1", "1,-1", "0,0"}) ==
      ":3: the column 'edema' has -1 beside 0 and 1; give data.csv.uncertain: ignore (unknown), 0 "
      "or 1 for what it counts as, or name the columns of labels in data.classes");
  Folder one;
  one.config.columns_are_labels = false;
  CHECK(one.read("image,mass,edema", {"0,1", "1,1"}) ==
        ":3: has 2 labels, mass, edema; without model.loss: binary_cross_entropy an image has one "
        "label. Give this loss for several labels per image, or name the column of labels with "
        "data.csv: {label_column: ...}");
}

TEST_CASE("csv: data.csv.uncertain decides what -1 counts as") {
  Folder folder;
  const std::vector<std::string> rows{"-1,-1,1", "40,1,-1.0", "41,0,"};
  using enum config::Uncertain;
  for (const auto& [uncertain, labels] :
       {std::pair{kIgnore, "mass, edema: ?1 1? 0?"}, std::pair{kAbsent, "mass, edema: 01 10 0?"},
        std::pair{kPresent, "mass, edema: 11 11 0?"}}) {
    folder.config.csv.uncertain = uncertain;
    CHECK(folder.read("image,age,mass,edema", rows) == labels);
  }
  folder.config.csv.uncertain.reset();
  folder.config.classes = {"mass", "edema"};
  CHECK(folder.read("image,age,mass,edema", rows) ==
        ":2: the cell '-1' of the label 'mass' is not 0, 1 or empty (unknown); give "
        "data.csv.uncertain: ignore (unknown), 0 or 1 for what -1 counts as");
}

TEST_CASE("csv: data.classes chooses the columns of labels and their order") {
  Folder folder;
  folder.config.classes = {"edema", "mass"};
  CHECK(folder.read("image,sex,mass,edema", {"0,0,1", "1,1,", "1,0,0"}) == "edema, mass: 10 ?1 00");
  CHECK(folder.read("image,mass,oedema", {"0,1", "1,1"}) ==
        ":1: has no column for the labels edema; the labels are edema, mass, and the columns "
        "image, mass, oedema");
  CHECK(folder.read("image,mass,edema", {"0,1", "1,2"}) ==
        ":3: the cell '2' of the label 'edema' is not 0, 1 or empty (unknown)");
  folder.config.classes = {"edema"};
  CHECK(folder.read("image,mass,edema", {"0,1", "1,0"}) == "edema: 1 0");
}

TEST_CASE("csv: columns of 0 without a 1 are not labels, a note names them") {
  Folder folder;
  const std::string path = folder.config.train.path;
  // "empty" has no cell of 0, and "age" has other numbers.
  folder.write("train.csv", "image,a,b,c,empty,age", {"1,0,0,,40", "0,1,,,41"});
  const Datasets sets = open_datasets(folder.config, 1);
  CHECK(Folder::text(sets, Split::kTrain) == "a, b: 10 01");
  const std::string note =
      path +
      ": the column c has no 1 and is not taken as a label; if it is one, list "
      "all labels in data.classes";
  CHECK(sets.train_files->report() == std::vector<std::string>{note});
  CHECK(sets.train_files->damage().left_aside == std::vector<std::string>{note});
  const DataCheck check = check_images(folder.config, 1, "");
  CHECK(check.splits.at(0).notes.at(0) == note);
  folder.write("train.csv", "image,a,d,b,c", {"1,0,0,0", "0,0,1,0"});
  CHECK(open_datasets(folder.config, 1).train_files->report().at(0) ==
        path +
            ": the columns d, c have no 1 and are not taken as labels; if they are labels, list "
            "all labels in data.classes");
  folder.config.classes = {"a", "b", "c", "d"};
  CHECK(open_datasets(folder.config, 1).train_files->report().empty());
  // The list of another split has the labels of the training list, whatever its cells are.
  folder.config.classes.clear();
  folder.write("train.csv", "image,a,b", {"1,0", "0,1"});
  folder.config.validation.path = (folder.files.path() / "validation.csv").string();
  folder.write("validation.csv", "image,a,b,c", {"1,0,0", "1,0,0"});
  CHECK(open_datasets(folder.config, 1).validation_files->report().empty());
}

TEST_CASE("csv: label_separator divides a cell into labels, which are sorted") {
  Folder folder;
  folder.config.csv.label_separator = "|";
  CHECK(folder.read("path,label", {"mass|edema", "", "edema", "edema | mass|mass", " |"}) ==
        "edema, mass: 11 00 10 11 00");
  CHECK(folder.read("path,label,sample_weight", {"10|9,1", "2,1"}) == "2, 9, 10: 011 100");
  CHECK(folder.read("path,label", {"", ""}) == ": no image has a label");
  folder.config.classes = {"mass", "edema"};
  CHECK(folder.read("path,label", {"edema", "mass"}) == "mass, edema: 01 10");
  CHECK(folder.read("path,label", {"edema", "mass|nodule"})
            .starts_with(":3: the label 'nodule' is not a class; the classes are mass, edema"));
  folder.config.classes.clear();
  folder.config.csv.label_separator = ";";
  CHECK(folder.read("x_5.ppm,a;b", {"b;c"}) == "a, b, c: 110 011");  // without a header
}

TEST_CASE("csv: as many labels as images take memory for the labels of each image only") {
  constexpr int kImages = 3000;
  const Folder folder;
  std::string text = "path,label\n";
  for (int i = 0; i < kImages; ++i) text += concat("x_0.ppm,c", i, "|c", i / 2, "|c", i, '\n');
  write_text(folder.files.path() / "train.csv", text);
  config::Data config = folder.config;
  config.csv.label_separator = "|";
  SplitImages source(config, image_split(config, Split::kTrain));
  const std::vector<std::string> classes = source.class_names();
  CHECK(classes.size() == kImages);
  const ImageList list = std::move(source).list(classes);
  REQUIRE(list.label_sets);
  CHECK(list.label_sets->size() == kImages);
  CHECK(count_labels(*list.label_sets) == 2 * kImages - 1);
  CHECK(list.label_name(5, classes) == "c2|c5");
}

TEST_CASE("LabelSets: equal sets have one number, and a row has a number per label") {
  LabelSets sets(4);
  CHECK(sets.add({2, 0, 2}, {3}) == 0);
  CHECK(sets.add({0, 2}, {}) == 1);
  CHECK(sets.add({0}, {2}) == 2);
  CHECK(sets.add({0, 2}, {3}) == 0);
  CHECK(sets.add({}, {}) == 3);
  CHECK(sets.size() == 4);
  CHECK(count_labels(sets) == 7);
  std::vector<float> row(4, 9);
  sets.write_row(0, row);
  CHECK(std::isnan(row[3]));
  row[3] = 7;
  CHECK(row == std::vector<float>{1, 0, 1, 7});
  sets.write_row(3, row);
  CHECK(row == std::vector<float>(4));
}

TEST_CASE("LabelSets: a text names at most ten present and unknown labels") {
  LabelSets sets(30);
  std::vector<std::string> names;
  std::vector<std::int32_t> first, last;
  for (int i = 0; i < 30; ++i) {
    names.push_back(concat('n', i));
    (i < 10 ? first : last).push_back(i);
  }
  CHECK(sets.describe(sets.add(first, last), names) ==
        "n0|n1|n2|n3|n4|n5|n6|n7|n8|n9 (n10|n11|n12|n13|n14|n15|n16|n17|n18|n19 and 10 more "
        "unknown)");
  CHECK(sets.describe(sets.add({}, {}), names) == "no label");
}

TEST_CASE("csv: thousands of columns of labels, two of the same name are an error") {
  constexpr int kColumns = 3000;
  const Folder folder;
  std::string header = "image", ones, zeros;
  for (int i = 0; i < kColumns; ++i) {
    header += concat(",c", i);
    ones += i == 0 ? "1" : ",1";
    zeros += i == 0 ? "0" : ",0";
  }
  folder.write("train.csv", header, {ones, zeros});
  config::Data config = folder.config;
  const Datasets found = open_datasets(config, 1);
  CHECK(found.num_classes == kColumns);
  CHECK(found.train->label_set_at(0).present.size() == kColumns);
  CHECK(found.train->label_set_at(1).present.empty());
  config.classes = {found.classes.rbegin(), found.classes.rend()};
  const Datasets named = open_datasets(config, 1);
  CHECK(named.classes.front() == concat('c', kColumns - 1));
  CHECK(named.train->label_set_at(0).present.size() == kColumns);
  CHECK(folder.read(header.substr(0, header.rfind('c')) + "c7", {ones, zeros}) ==
        ":1: has two columns 'c7'");
}

TEST_CASE("several labels: the fingerprint has one word per label") {
  const Folder folder;
  folder.write("train.csv", "image,a,b,c", {"0,1,", "1,1,0", ",,1", "0,0,0", "0,1,"});
  std::uint32_t crc = 0;
  const auto add = [&](const std::string& text) {
    crc = crc32c({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()}, crc);
  };
  for (int i = 0; i < 5; ++i) {
    const auto bytes = fs::file_size(folder.files.path() / concat("x_", i, ".ppm"));
    add(concat("x_", i, ".ppm ", bytes, ' ', i == 4 ? 0 : i, '\n'));
  }
  add("0 1 nan 1 1 0 nan nan 1 0 0 0 ");
  add(ImageReader(folder.config).recipe());
  const std::string fingerprint = open_datasets(folder.config, 1).train->fingerprint();
  CHECK(fingerprint.substr(fingerprint.rfind(' ') + 1) == to_hex(crc));
}

TEST_CASE("csv: a cell with several labels and no separator is reported with the key") {
  Folder folder;
  CHECK(folder.read("path,label", {"a", "a|b", "b"}) ==
        ":3: the label 'a|b' looks like several labels, separated by '|'. For several labels per "
        "image give data.csv: {label_separator: '|'} and model.loss: binary_cross_entropy; if "
        "these are names of classes, list them in data.classes");
}

TEST_CASE("csv: the lists of other splits have the labels of the training list") {
  Folder folder;
  folder.write("train.csv", "image,a,b,c", {"1,0,1", "0,1,0", "0,0,1"});
  folder.config.validation.path = (folder.files.path() / "validation.csv").string();
  // All of `c` is 0, and the order differs.
  folder.write("validation.csv", "image,c,note,b,a", {"0,1,0,1", "0,0,1,"});
  const Datasets sets = open_datasets(folder.config, 1);
  CHECK(Folder::text(sets, Split::kValidation) == "a, b, c: 100 ?10");
  CHECK(sets.num_classes == 3);
  CHECK_FALSE(sets.label_is_index);
  CHECK(sets.class_order == "columns");
}

TEST_CASE("several labels: counts and fingerprints differ by a label") {
  const Folder folder;
  folder.write("train.csv", "image,a,b", {"1,0", "1,1", ",1", "0,0"});
  const Datasets sets = open_datasets(folder.config, 1);
  const std::vector<LabelCounts> counts = count_labels(*sets.train);
  REQUIRE(counts.size() == 2);
  CHECK(counts[0].positives == 2);
  CHECK(counts[0].negatives == 1);
  CHECK(counts[1].positives == 2);
  CHECK(counts[1].negatives == 2);
  folder.write("train.csv", "image,a,b", {"1,0", "1,1", "0,1", "0,0"});  // the unknown one is 0
  const Datasets other = open_datasets(folder.config, 1);
  CHECK(sets.train->fingerprint() != other.train->fingerprint());
  CHECK(common_data(sets, false) != common_data(other, false));
}

TEST_CASE("several labels: rows end in weights, and mixed rows have unknown labels") {
  Folder folder;
  folder.write("train.csv", "image,a,b,sample_weight", {"1,0,2", ",1,4"});
  Datasets sets = open_datasets(folder.config, 1);
  std::vector<std::byte> image(sets.train->spec().image_bytes());
  CHECK(sets.train->spec().targets() == 2);
  auto weighed = weigh_samples(std::move(sets.train), 2);
  CHECK(weighed->spec().targets() == 2);
  std::vector<float> row(3);
  weighed->get(0, image.data(), row.data());
  CHECK(row == std::vector<float>{1, 0, 2});
  config::Augmentation mixup;
  mixup.kind = config::MixUp{1};
  const auto mixed = mix_samples(std::move(weighed), {mixup}, 2, 3);
  CHECK(mixed->spec().is_multi_label());
  mixed->get(0, 0, image.data(), row.data());
  CHECK(std::isnan(row[0]));
  // Shares s and 1 - s of the weights 2 and 4: the weight is w = 4 - 2 s, and b is 4 (1 - s) / w.
  const float share = (4 - row[2]) / 2;
  CHECK(share > 0);
  CHECK(share < 1);
  CHECK(row[1] == doctest::Approx(4 * (1 - share) / row[2]));
}

TEST_CASE("several labels: damaged files are skipped or replaced by files of equal labels") {
  Folder folder;
  folder.write("train.csv", "image,a,b", {"1,0", "1,1", "1,1", "0,1", "0,0", "1,0"});
  write_text(folder.files.path() / "x_1.ppm", "P6 8 6 255\n");
  folder.config.error_budget = 2;
  folder.config.on_error = config::OnError::kSkip;
  folder.config.cache_dir = (folder.files.path() / "cache").string();
  const Datasets skipped = open_datasets(folder.config, 1);
  CHECK(Folder::text(skipped, Split::kTrain) == "a, b: 10 11 01 00 10");
  CHECK(skipped.train_files->report().at(0).starts_with("skipped (class a|b): "));
  folder.config.on_error = config::OnError::kReplace;
  const Datasets replaced = open_datasets(folder.config, 1);
  std::vector<std::byte> image(replaced.train->spec().image_bytes()), other(image.size());
  std::vector<float> row(2);
  replaced.train->get(1, image.data(), row.data());
  CHECK(row == std::vector<float>{1, 1});
  replaced.train->get(2, other.data(), row.data());
  CHECK(image == other);
}

TEST_CASE("data counts the images of each label, and those without any") {
  Folder folder;
  folder.write("train.csv", "image,a,b", {"1,0", "1,1", ",1", "0,0", "1,0"});
  folder.config.on_conflict = config::OnConflict::kFirst;
  fs::copy_file(folder.files.path() / "x_0.ppm", folder.files.path() / "x_3.ppm",
                fs::copy_options::overwrite_existing);
  const DataCheck check = check_images(folder.config, 1, "");
  const SplitCheck& train = check.splits.at(0);
  CHECK(train.files == 4);
  CHECK(train.per_class == std::vector<std::int64_t>{3, 2});
  REQUIRE(train.notes.size() == 2);
  CHECK(train.notes[0].find("x_0.ppm (a) = ") != std::string::npos);
  CHECK(train.notes[0].find("x_3.ppm (no label)") != std::string::npos);
  CHECK(train.notes[1] ==
        "several labels per file: 0 of 4 files have none, and 1 of 8 labels are unknown");
  // Equal files with equal labels in two splits, whose lists number the sets of labels differently.
  folder.config.on_conflict = config::OnConflict::kKeep;
  folder.config.validation.path = (folder.files.path() / "validation.csv").string();
  write_text(folder.config.validation.path, "image,a,b\nx_1.ppm,1,1\nx_4.ppm,0,1\n");
  const DataCheck both = check_images(folder.config, 1, "");
  REQUIRE(both.duplicates.size() == 3);  // x_3 equals x_0
  CHECK(both.duplicates[1].ends_with("x_1.ppm (validation)"));
  CHECK(both.duplicates[2].ends_with("x_4.ppm (validation), another class"));
  CHECK(both.conflicts == 1);
}

TEST_CASE("on_conflict: the photo is left out where there are more sets of labels than labels") {
  Folder folder;
  folder.write("train.csv", "image,a,b", {"0,0", "1,0", "0,1", "1,1", ",1", "0,0"});
  folder.config.on_conflict = config::OnConflict::kDrop;
  fs::copy_file(folder.files.path() / "x_4.ppm", folder.files.path() / "x_3.ppm",
                fs::copy_options::overwrite_existing);
  const Datasets sets = open_datasets(folder.config, 1);
  CHECK(Folder::text(sets, Split::kTrain) == "a, b: 00 10 01 00");
  // Every photo has two sets of labels.
  write_text(folder.config.train.path, "image,a,b\nx_4.ppm,0,1\nx_3.ppm,1,1\n");
  CHECK_THROWS_WITH_AS(open_datasets(folder.config, 1),
                       doctest::Contains("data.on_conflict: drop leaves no file"), DataError);
}

TEST_CASE("csv: a validation list of another kind of label is an error") {
  Folder folder;
  folder.write("train.csv", "image,a,b", {"0,1", "1,0", "1,1"});
  folder.config.validation.path = (folder.files.path() / "validation.csv").string();
  write_text(folder.config.validation.path, "image,label\nx_3.ppm,a\nx_4.ppm,b\n");
  CHECK_THROWS_WITH_AS(open_datasets(folder.config, 1),
                       doctest::Contains("has one class per image, but the training list has"),
                       DataError);
}

TEST_CASE("csv: the error of columns of labels with other names has the names") {
  Folder folder;
  folder.config.classes = {"a", "b"};
  CHECK(folder.read("image,edema,mass", {"0,1", "1,0"}) ==
        ":1: has no column for the labels a, b; the columns are image, edema, mass");
}

TEST_CASE("csv: a column of groups with -1 is not a label") {
  Folder folder;
  folder.config.group_by = "site";
  CHECK(folder.read("image,site,a,b", {"-1,0,1", "0,1,0", "1,1,1"}) == "a, b: 01 10 11");
}

}  // namespace trainer::data::multi_label_test
