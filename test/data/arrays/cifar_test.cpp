#include <doctest/doctest.h>

#include <fstream>

#include "base/error.h"
#include "base/files/files.h"
#include "data/open.h"

namespace trainer::data::cifar_test {
namespace {

// Record i of label i % classes has the value 10 i + c in plane c, and i at its first pixel.
Bytes records(int count, int classes, bool hundred) {
  Bytes file;
  for (int i = 0; i < count; ++i) {
    if (hundred) file.push_back(static_cast<std::uint8_t>(i % 20));
    file.push_back(static_cast<std::uint8_t>(i % classes));
    for (int c = 0; c < 3; ++c) {
      file.push_back(static_cast<std::uint8_t>(i));
      file.insert(file.end(), 1023, static_cast<std::uint8_t>(10 * i + c));
    }
  }
  return file;
}

config::Data build_config(const std::filesystem::path& folder) {
  config::Data config;
  config.format = config::DataFormat::kCifar;
  config.path = folder;
  return config;
}

}  // namespace

TEST_CASE("read_cifar: planes of CIFAR-10 and CIFAR-100 become pixels") {
  for (const bool hundred : {false, true}) {
    const TemporaryFolder folder;
    if (hundred) {
      write_file_atomic(folder.path() / "train.bin", records(21, 100, true));
      write_file_atomic(folder.path() / "test.bin", records(3, 100, true));
    } else {
      write_file_atomic(folder.path() / "data_batch_1.bin", records(12, 10, false));
      write_file_atomic(folder.path() / "data_batch_2.bin", records(9, 10, false));
      write_file_atomic(folder.path() / "test_batch.bin", records(3, 10, false));
      write_file_atomic(folder.path() / "batches.meta.txt",
                        "airplane\nautomobile\nbird\ncat\ndeer\ndog\nfrog\n"
                        "horse\nship\ntruck\n\n");
    }
    const Datasets sets = open_datasets(build_config(folder.path()), 1);
    CHECK(sets.train->size() == 21);
    CHECK(sets.test->size() == 3);
    CHECK(sets.image_shape == Shape{32, 32, 3});
    CHECK(sets.num_classes == (hundred ? 21 : 10));
    CHECK(sets.classes[1] == (hundred ? "1" : "automobile"));
    Bytes image(3072);
    std::int32_t label = -1;
    sets.train->get(11, image.data(), &label);
    CHECK(label == (hundred ? 11 : 1));
    CHECK(image[0] == 11);
    CHECK(image[2] == 11);
    CHECK(image[3] == 110);
    CHECK(image[4] == 111);
    CHECK(image[3071] == 112);
  }
}

TEST_CASE("read_cifar: the error of other files has the path") {
  const TemporaryFolder folder;
  CHECK_THROWS_WITH_AS(
      open_datasets(build_config(folder.path()), 1),
      doctest::Contains("does not contain data_batch_1.bin, needed for the train split"),
      DataError);
  Bytes file = records(2, 10, false);
  file.pop_back();
  write_file_atomic(folder.path() / "data_batch_1.bin", file);
  CHECK_THROWS_WITH_AS(open_datasets(build_config(folder.path()), 1),
                       doctest::Contains("is not a binary file of CIFAR: 6145 bytes"), DataError);
}

}  // namespace trainer::data::cifar_test
