// data.class_order: the order of classes that are found in folders and lists.
#include <doctest/doctest.h>

#include "base/text.h"
#include "commands/data/check_print.h"
#include "data/check.h"
#include "data/images/image_files.h"
#include "data/open.h"

namespace trainer::data::class_order_test {
namespace {

using commands::to_text;

using config::ClassOrder;

struct Case {
  TemporaryFolder files;
  config::Data config = build_config(files.path());

  explicit Case(const std::vector<std::string>& folders = {}) {
    int seed = 0;
    for (const std::string& name : folders)
      write_image(files.path() / name / "1.ppm", 9, 9, ++seed);
  }
  // The classes, the class of each sample, and what decides the order: "0, 1: 0 1 (text)"; or the
  // error behind the path.
  std::string read(std::optional<ClassOrder> order) {
    config.class_order = order;
    try {
      const Datasets sets = open_datasets(config, 1);
      std::string result = join(sets.classes) + ":";
      for (const std::int32_t label : labels(*sets.train)) result += concat(' ', label);
      const DataCheck check = check_images(config, 1, "");
      CHECK(check.classes == sets.classes);
      CHECK(check.class_order == sets.class_order);
      CHECK(to_text(check).starts_with(
          concat("classes in the order ", sets.class_order, ": ", join(sets.classes), '\n')));
      return concat(result, " (", sets.class_order, ')');
    } catch (const DataError& error) {
      const std::string text = error.what();
      return text.substr(files.path().string().size());
    }
  }
  void use_list(const std::vector<std::string>& labels) {
    std::string text = "path,label\n";
    for (std::size_t i = 0; i < labels.size(); ++i) {
      const std::string name = concat(i, ".ppm");
      write_image(files.path() / "x" / name, 9, 9, static_cast<int>(i) + 1);
      text += concat("x/", name, ',', labels[i], '\n');
    }
    write_text(files.path() / "list.csv", text);
    config.format = config::DataFormat::kCsv;
    config.path = "";
    config.train.path = (files.path() / "list.csv").string();
  }
};

}  // namespace

TEST_CASE(
    "image_folder: classes are in the order of their text unless data.class_order is number") {
  Case numbers({"0", "1", "2", "10", "11"});
  CHECK(numbers.read({}) == "0, 1, 10, 11, 2: 0 1 2 3 4 (text)");
  CHECK(numbers.read(ClassOrder::kText) == "0, 1, 10, 11, 2: 0 1 2 3 4 (text)");
  CHECK(numbers.read(ClassOrder::kNumber) == "0, 1, 2, 10, 11: 0 1 2 3 4 (number)");
  numbers.config.train.glob = (numbers.files.path() / "*/*.ppm").string();
  CHECK(numbers.read(ClassOrder::kNumber) == "0, 1, 2, 10, 11: 0 1 3 4 2 (number)");
  Case reals({"-1", "0.5", "10", "9"});
  CHECK(reals.read(ClassOrder::kNumber) == "-1, 0.5, 9, 10: 0 1 2 3 (number)");
  Case names({"b", "a10", "a9"});
  CHECK(names.read({}) == "a10, a9, b: 0 1 2 (text)");
  CHECK(names.read(ClassOrder::kNumber) ==
        ": the class 'a10' is not a number; remove data.class_order: number");
  names.config.classes = {"b", "a9", "a10"};
  CHECK(names.read({}) == "b, a9, a10: 0 1 2 (data.classes)");
  CHECK(Case({"1", "01"}).read(ClassOrder::kNumber) ==
        ": the labels '01' and '1' are the same number; write both the same way");
}

TEST_CASE("csv: numbers are in the order of their values unless data.class_order is text") {
  Case list;
  list.use_list({"2", "10", "1", "0"});
  CHECK(list.read({}) == "0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10: 2 10 1 0 (number)");
  CHECK(list.read(ClassOrder::kText) == "0, 1, 10, 2: 3 2 1 0 (text)");
  list.use_list({"2.5", "10", "1"});
  CHECK(list.read({}) == "1, 2.5, 10: 1 2 0 (number)");
  CHECK(list.read(ClassOrder::kText) == "1, 10, 2.5: 2 1 0 (text)");
  list.use_list({"dog", "cat"});
  CHECK(list.read({}) == "cat, dog: 1 0 (text)");
  CHECK(list.read(ClassOrder::kNumber) ==
        "/list.csv:2: the class 'dog' is not a number; remove data.class_order: number");
  list.use_list({"1", "1"});
  write_text(list.files.path() / "list.csv", "image,10,9\nx/0.ppm,1,0\nx/1.ppm,0,1\n");
  CHECK(list.read({}) == "10, 9: 0 1 (columns)");
  CHECK(list.read(ClassOrder::kNumber) == "9, 10: 1 0 (number)");
  CHECK(list.read(ClassOrder::kText) == "10, 9: 0 1 (text)");
}

}  // namespace trainer::data::class_order_test
