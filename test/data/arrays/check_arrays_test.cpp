#include "data/check_arrays.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/files/files.h"
#include "commands/data/check_print.h"

namespace trainer::data::check_arrays_test {
namespace {

using commands::to_json;
using commands::to_text;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// Writes a NPY file of little-endian numbers.
template <class T>
void write_npy(const Path& path, const std::string& type, const std::string& shape,
               const std::vector<T>& values) {
  std::string header =
      "{'descr': '" + type + "', 'fortran_order': False, 'shape': (" + shape + "), }";
  while ((10 + header.size() + 1) % 64 != 0) header += ' ';
  header += '\n';
  std::string bytes("\x93NUMPY\x01\0", 8);
  bytes += static_cast<char>(header.size() & 255);
  bytes += static_cast<char>(header.size() >> 8);
  bytes += header;
  std::string content(values.size() * sizeof(T), '\0');
  std::memcpy(content.data(), values.data(), content.size());
  std::ofstream(path, std::ios::binary) << bytes << content;
}

// Splits of arrays of images of 1 x 2 bytes.
struct Arrays {
  TemporaryFolder files;
  config::Data config;

  Arrays() {
    config.format = config::DataFormat::kNpz;
    config.train.images = (files.path() / "x_train.npy").string();
    config.train.labels = (files.path() / "y_train.npy").string();
    config.test.images = (files.path() / "x_test.npy").string();
    config.test.labels = (files.path() / "y_test.npy").string();
  }
  void write(Split split, const std::vector<std::uint8_t>& pixels,
             const std::vector<std::int32_t>& labels) const {
    const config::SplitFiles& to = config.files(split);
    write_npy(to.images, "|u1", concat(labels.size(), ", 1, 2"), pixels);
    write_npy(to.labels, "<i4", concat(labels.size(), ","), labels);
  }
};

}  // namespace

TEST_CASE(
    "check_arrays counts samples and finds shape, value range and equal samples within a split") {
  const Arrays arrays;
  arrays.write(Split::kTrain, {3, 9, 7, 7, 3, 9, 5, 6, 3, 9}, {0, 1, 0, 0, 0});
  arrays.write(Split::kTest, {1, 2, 200, 4}, {1, 0});
  const ArrayCheck check = check_arrays(arrays.config, 1);
  CHECK(check.clean());
  REQUIRE(check.splits.size() == 2);
  const ArraySplitCheck& train = check.splits[0];
  CHECK(train.split == Split::kTrain);
  CHECK(train.samples == 5);
  CHECK(train.per_class == std::vector<std::int64_t>{4, 1});
  CHECK(train.shape == Shape{1, 2, 1});
  CHECK(train.type == DType::kUInt8);
  CHECK(train.low == 3);
  CHECK(train.high == 9);
  CHECK(train.constant == 1);
  CHECK(train.copies == 2);
  CHECK(check.splits[1].high == 200);
  CHECK(check.splits[1].copies == 0);
  const std::string text = to_text(check);
  CHECK(contains(text, "train: 5 samples, [1, 2, 1] uint8, values 3 to 9\n  0: 4\n  1: 1\n"));
  CHECK(contains(text, "  largest class 0 (4), smallest 1 (1): 4 times\n"));
  CHECK(contains(text, "  samples that equal an earlier sample of the split: 2\n"));
  CHECK(contains(text, "no sample in two splits"));
  const std::string json = to_json(check);
  CHECK(contains(json, R"("samples":5,"class_counts":{"0":4,"1":1},"shape":[1,2,1])"));
  CHECK(contains(json, R"("imbalance":4)"));
}

TEST_CASE("check_arrays: equal samples in two splits or with different labels are listed") {
  const Arrays arrays;
  arrays.write(Split::kTrain, {3, 9, 7, 8, 3, 9, 5, 6}, {0, 1, 1, 0});
  arrays.write(Split::kTest, {1, 2, 7, 8, 5, 6}, {1, 1, 1});
  const ArrayCheck check = check_arrays(arrays.config, 1);
  CHECK(!check.clean());
  REQUIRE(check.splits.size() == 2);
  CHECK(check.splits[0].copies == 1);
  CHECK(check.splits[1].copies == 0);  // the equal samples are in the other split
  CHECK(check.shared ==
        std::vector<std::string>{"train 1 (1) = test 1 (1)", "train 3 (0) = test 2 (1)"});
  CHECK(check.conflicts ==
        std::vector<std::string>{"train 0 (0) = train 2 (1)", "train 3 (0) = test 2 (1)"});
  const std::string text = to_text(check);
  CHECK(contains(text, "equal samples in two splits: 2\n  train 1 (1) = test 1 (1)\n"));
  CHECK(contains(text, "equal samples with different labels: 2\n"));
  CHECK(!contains(text, "no sample in two splits"));
}

TEST_CASE("check_arrays: data.validation_split and data.limit divide the samples as for training") {
  Arrays arrays;
  arrays.write(Split::kTrain, {1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6}, {0, 1, 0, 1, 0, 1});
  arrays.write(Split::kTest, {9, 9}, {0});
  arrays.config.validation_split = 0.5;
  arrays.config.limit = 4;
  const ArrayCheck check = check_arrays(arrays.config, 1);
  REQUIRE(check.splits.size() == 3);
  CHECK(check.splits[0].samples == 2);
  CHECK(check.splits[1].split == Split::kValidation);
  CHECK(check.splits[1].per_class == std::vector<std::int64_t>{1, 1});
}

TEST_CASE("check_arrays reports the range of floats") {
  Arrays arrays;
  write_npy<float>(arrays.config.train.images, "<f4", "3, 1, 2", {-0.5f, 2.5f, 0, 1, 2, 2});
  write_npy<float>(arrays.config.train.labels, "<f4", "3, 2", {1, 2, 3, 4, 5, 6});
  arrays.config.test = {};
  const ArrayCheck check = check_arrays(arrays.config, 1);
  REQUIRE(check.splits.size() == 1);
  CHECK(check.splits[0].low == -0.5f);
  CHECK(check.splits[0].high == 2.5f);
  CHECK(check.splits[0].constant == 1);
  CHECK(check.splits[0].per_class.empty());
  CHECK(contains(to_text(check), "labels are numbers, not classes"));
}

TEST_CASE("check_arrays: a class without samples is named") {
  Arrays arrays;
  arrays.write(Split::kTrain, {1, 1, 2, 2}, {0, 2});
  arrays.config.test = {};
  arrays.config.classes = {"cat", "dog", "fox"};
  const std::string text = to_text(check_arrays(arrays.config, 1));
  CHECK(contains(text, "classes: cat, dog, fox\n"));
  CHECK(contains(text, "class without samples: dog (0)"));
}

}  // namespace trainer::data::check_arrays_test
