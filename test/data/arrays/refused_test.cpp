// What is wrong with the files and keys of an array data set is named, with what to do.
#include <doctest/doctest.h>

#include <functional>

#include "base/error.h"
#include "data/arrays/idx_files.h"
#include "data/open.h"
#include "data/open_images.h"

namespace trainer::data::refused_test::refused_test {
namespace {

using config::DataFormat;

config::Data build_config(DataFormat format, const Path& path = {}) {
  config::Data config;
  config.format = format;
  config.path = path;
  return config;
}

std::string catch_error(const config::Data& config, std::optional<Split> only = {}) {
  try {
    open_datasets(config, 1, only);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

void check_error(const config::Data& config, const std::string& part,
                 std::optional<Split> only = {}) {
  const std::string error = catch_error(config, only);
  CHECK_MESSAGE(error.find(part) != std::string::npos, error, " has no ", part);
}

// An .npy file of bytes.
Bytes npy(const std::vector<int>& dims, const Bytes& content) {
  std::string shape;
  for (const int dim : dims) shape += std::to_string(dim) + ", ";
  std::string header = "{'descr': '|u1', 'fortran_order': False, 'shape': (" + shape + "), }";
  header.resize(117, ' ');
  const std::string start = "\x93NUMPY\x01", size{'\0', '\x76', '\0'};
  const std::string text = start + size + header + '\n';
  Bytes bytes(text.begin(), text.end());
  bytes.insert(bytes.end(), content.begin(), content.end());
  return bytes;
}

}  // namespace

TEST_CASE("IDX: the error of a missing file has split and path") {
  const TemporaryFolder folder;
  const Path images = folder.path() / "train-images-idx3-ubyte";
  const Path labels = folder.path() / "train-labels-idx1-ubyte";
  write_split(folder.path(), "train", 20, 3);
  config::Data named = build_config(DataFormat::kIdx);
  check_error(named, "data: give `path`, or `images` and `labels` of `train`");
  named.train.images = images;
  check_error(named, "data.train: give both `images` and `labels`");
  named.train.labels = folder.path() / "gone";
  check_error(named, (folder.path() / "gone").string() +
                         ": no such file, needed for the train split. Fetch the data set");
  named.train.labels = labels;
  CHECK(catch_error(named) == "");
  named.validation.labels = labels;
  check_error(named, "data.validation: give both `images` and `labels`");
  std::swap(named.validation.labels, named.validation.images);
  check_error(named, "data.validation: give both `images` and `labels`");

  const config::Data in_folder = build_config(DataFormat::kIdx, folder.path());
  CHECK(catch_error(in_folder) == "");
  write_split(folder.path(), "t10k", 5, 3);
  std::filesystem::remove(folder.path() / "t10k-labels-idx1-ubyte");
  check_error(in_folder, "t10k-labels-idx1-ubyte[.gz]: no such file, needed for the test split");
  std::filesystem::remove(images);
  check_error(in_folder, "train-images-idx3-ubyte[.gz]: no such file, needed for the train split",
              Split::kTrain);
  write_split(folder.path(), "train", 20, 3);
  std::filesystem::remove(labels);
  check_error(in_folder, "train-labels-idx1-ubyte[.gz]: no such file, needed for the train split",
              Split::kTrain);
}

TEST_CASE("NPY and NPZ: the error of a missing file or array has split and name") {
  const TemporaryFolder folder;
  const Path images = folder.path() / "x.npy", labels = folder.path() / "y.npy";
  write_file_atomic(images, npy({2, 2, 2}, Bytes(8)));
  write_file_atomic(labels, npy({2}, {0, 1}));
  config::Data config = build_config(DataFormat::kNpz);
  check_error(config,
              "data.train: give `path` of an .npz file, or `images` and `labels` as .npy files");
  config.train.images = images;
  check_error(config, "data.train: give `path` of an .npz file");
  config.train.labels = folder.path() / "gone.npy";
  check_error(config, "gone.npy: no such file, needed for the train split");
  config.train.labels = labels;
  CHECK(catch_error(config) == "");
  config.test.images = images;
  check_error(config, "data.test: give `path` of an .npz file");
  config.test.labels = labels;
  CHECK(catch_error(config) == "");
  check_error(build_config(DataFormat::kNpz, folder.path() / "gone.npz"),
              "gone.npz: no such file or folder, named by data.path");
}

TEST_CASE("CIFAR: the error of a missing file has split and path") {
  const TemporaryFolder folder;
  check_error(build_config(DataFormat::kCifar),
              "data.path: name the folder with CIFAR's .bin files");
  config::Data config = build_config(DataFormat::kCifar, folder.path());
  check_error(config, "does not contain data_batch_1.bin, needed for the train split");
  write_file_atomic(folder.path() / "train.bin", Bytes(3073));
  CHECK(catch_error(config) == "");
  config.test.path = folder.path();
  check_error(config, "does not contain test_batch.bin, needed for the test split");
  write_file_atomic(folder.path() / "test.bin", Bytes(3073));
  CHECK(catch_error(config) == "");
  config.test.path = folder.path() / "gone.bin";
  check_error(config, "gone.bin");
}

TEST_CASE("array data sets: contradicting numbers of classes are an error") {
  const TemporaryFolder folder;
  write_file_atomic(folder.path() / "x.npy", npy({2, 2, 2}, Bytes(8)));
  write_file_atomic(folder.path() / "targets.npy", npy({2, 3}, Bytes(6)));
  config::Data config = build_config(DataFormat::kNpz);
  config.train.images = folder.path() / "x.npy";
  config.train.labels = folder.path() / "targets.npy";
  CHECK(open_datasets(config, 1).num_classes == 3);
  config.num_classes = 4;
  check_error(config, "data: 4 classes are given, but a label in the files has 3 numbers");
  config.num_classes = 3;
  CHECK(catch_error(config) == "");
  config.classes = {"a", "b"};
  check_error(config, "data: num_classes is 3, but 2 classes are named");
  config.num_classes.reset();
  check_error(config, "data: 2 classes are given, but a label in the files has 3 numbers");
  config.classes = {"a", "b", "c"};
  CHECK(catch_error(config) == "");
  // Targets of one number may have any number of classes.
  write_file_atomic(folder.path() / "targets.npy", npy({2, 1}, Bytes(2)));
  config.classes = {"a", "b"};
  CHECK(catch_error(config) == "");
}

TEST_CASE("array data sets: images and labels of different sizes are an error") {
  const TemporaryFolder folder;
  config::Data config = build_config(DataFormat::kNpz);
  config.train.images = folder.path() / "x.npy";
  config.train.labels = folder.path() / "y.npy";
  const auto check = [&](const std::vector<int>& x, const std::vector<int>& y,
                         const std::string& part) {
    const auto bytes = [](const std::vector<int>& dims) {
      std::size_t count = 1;
      for (const int dim : dims) count *= static_cast<std::size_t>(dim);
      return Bytes(count);
    };
    write_file_atomic(config.train.images, npy(x, bytes(x)));
    write_file_atomic(config.train.labels, npy(y, bytes(y)));
    const std::string error = catch_error(config);
    CHECK_MESSAGE((part.empty() ? error.empty() : error.find(part) != std::string::npos), error,
                  " has no ", part);
  };
  check({2, 2, 2}, {2}, "");
  check({2, 2, 2}, {2, 1}, "");
  check({2, 2, 2}, {3}, "contains 3 labels, but ");
  check({3, 2, 2}, {2}, "contains 3 images; they must be of the same split");
  check({2, 2, 2}, {2, 1, 1}, "");
  check({2, 2, 2}, {2, 2, 2}, "has 3 dimensions; labels need [n] (class indices) or [n, targets]");
  check({2, 2, 2}, {}, "has 0 dimensions; labels need");

  write_file_atomic(config.train.images, npy({2, 2, 2}, Bytes(8)));
  write_file_atomic(config.train.labels, npy({2}, {0, 1}));
  config.test.images = folder.path() / "other.npy";
  config.test.labels = config.train.labels;
  write_file_atomic(config.test.images, npy({2, 2, 3}, Bytes(12)));
  check_error(config,
              "the images of the test split are [2, 3, 1] uint8 with 1 numbers per label, but "
              "those of the first split are [2, 2, 1] uint8 with 1");
}

TEST_CASE("array data sets: a missing split or a wrong validation_split is an error") {
  const TemporaryFolder folder;
  write_split(folder.path(), "train", 20, 3);
  config::Data config = build_config(DataFormat::kIdx, folder.path());
  check_error(config, "there is no test split; name one with --set data.test.path=PLACE",
              Split::kTest);
  check_error(config,
              "there is no validation split; name one with --set data.validation.path=PLACE",
              Split::kValidation);
  for (const double share : {-0.1, 1.0, 1.5}) {
    config.validation_split = share;
    check_error(config, "data.validation_split must be in [0, 1)");
  }
  config.validation_split = 0;
  CHECK(open_datasets(config, 1).validation == nullptr);
  config.validation_split = 0.25;
  CHECK(open_datasets(config, 1).validation->size() == 5);
  CHECK(open_datasets(config, 1, Split::kValidation).train == nullptr);
  check_error(build_config(DataFormat::kDigits),
              "data.path: name the folder to write the digits to");
}

TEST_CASE("leads_to_image_files decides by the first bytes between images and arrays") {
  const TemporaryFolder folder;
  const Path path = folder.path() / "x";
  for (const auto& [start, is_array] :
       std::vector<std::pair<Bytes, bool>>{{{0x1F, 0x8B, 8, 0}, true},  // gzip
                                           {{0x1F, 0x8C, 8, 0}, false},
                                           {{0, 0, 8, 3}, true},  // IDX
                                           {{0, 0, 8, 1}, true},
                                           {{0, 0, 8, 0}, false},
                                           {{0, 0, 7, 3}, false},
                                           {{0, 1, 8, 3}, false},
                                           {{1, 0, 8, 3}, false},
                                           {{0x93, 'N', 'U', 'M', 'P', 'Y'}, true},
                                           {{'P', 'K', 3, 4}, true},  // zip
                                           {{'P', 'K', 3, 5}, false},
                                           {{0xFF, 0xD8, 0xFF, 0xE0}, false},  // JPEG
                                           {{0, 0, 8}, false},
                                           {{}, false}}) {
    write_file_atomic(path, std::span<const std::uint8_t>(start));
    CAPTURE(start.size());
    CHECK(leads_to_image_files(path) == !is_array);
  }
}

}  // namespace trainer::data::refused_test::refused_test
