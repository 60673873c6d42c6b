#include "support/changed_bytes.h"

#include <doctest/doctest.h>

#include "data/arrays/array.h"
#include "data/arrays/cifar.h"
#include "data/arrays/idx.h"
#include "data/arrays/npz.h"
#include "data/decode/image_file.h"
#include "data/images/listing/image_list.h"
#include "data/images/listing/shards.h"

namespace trainer::data {
namespace {

const std::string kSeeds = "test/fuzz/seeds/";

std::string image(const Path& path) {
  const Bytes file = read_file(path);
  const std::string name = path.string();
  ImageFile opened(file, name, ImageLimits{1 << 20, 1 << 24});
  Pixels pixels;
  opened.decode(3, 1, pixels);
  return concat(pixels.height(), " x ", pixels.width(), " ", opened.info().orientation, " ",
                crc32c({pixels.data(), pixels.size()}));
}

std::string array(const Array& array) {
  std::string text = concat(static_cast<int>(array.element), ":");
  for (const std::int64_t dim : array.dims) text += concat(" ", dim);
  for (std::int64_t i = 0; i < std::min<std::int64_t>(array.count(), 64); ++i) {
    text += concat(" ", array.at(i));
  }
  return text;
}

std::string describe_arrays(const Path& path) {
  std::string text;
  for (const std::string& name : npz_names(path)) text += name + " " + array(read_npz(path, name));
  return text;
}

std::string samples(const std::vector<ShardSample>& samples) {
  std::string text;
  for (const ShardSample& sample : samples) {
    text += concat(sample.name, " ", sample.label, " ", sample.offset, " ", sample.bytes, "; ");
  }
  return text;
}

std::string list(const Path& path) {
  config::Data config;
  config.format = config::DataFormat::kCsv;
  config::SplitFiles split;
  split.path = path;
  SplitImages source(config, split);
  const std::vector<std::string> classes = source.class_names();
  std::string text;
  for (const std::string& name : classes) text += name + ",";
  for (const ListedFile& file : std::move(source).list(classes).files) {
    text += concat(" ", file.path, "=", file.label);
  }
  return text;
}

}  // namespace

TEST_CASE(
    "image formats: readers return the expected counts of results when each byte is changed") {
  test::check_answers("images", kSeeds + "images", {"grey.bmp", "rgb.bmp", ".ppm"}, image);
}

TEST_CASE("IDX: read_idx returns the expected counts of results when each byte is changed") {
  test::check_answers("idx", kSeeds + "idx", {"bytes", ".gz", "floats", "shorts"},
                      [](const Path& path) { return array(read_idx(path)); });
}

TEST_CASE("NPY: read_npy returns the expected counts of results when each byte is changed") {
  test::check_answers("npy", kSeeds + "npy", {"f4", "f8", "fortran", "i8", "u1"},
                      [](const Path& path) { return array(read_npy(path)); });
}

TEST_CASE("NPZ: read_npz returns the expected counts of results when each byte is changed") {
  test::check_answers("npz", kSeeds + "npz", {"stored", "deflated"}, describe_arrays);
}

TEST_CASE("CIFAR: read_cifar returns the expected counts of results when each byte is changed") {
  const auto read = [](const Path& path) {
    const Cifar cifar = read_cifar({path});
    return array(cifar.images) + ", " + array(cifar.labels);
  };
  test::check_answers("cifar", kSeeds + "cifar", {"ten.bin"}, read, test::Changes::kOnePerByte);
}

TEST_CASE("CSV: the reader returns the expected counts of results when each byte is changed") {
  test::check_answers("csv", kSeeds + "csv", {"numbers", "plain", "quoted"}, list);
}

TEST_CASE("tar: the reader returns the expected counts of results when each byte is changed") {
  test::check_answers("tar", kSeeds + "tar", {"ustar.tar"},
                      [](const Path& path) { return samples(read_tar_shard(path)); });
}

TEST_CASE("TFRecord: the reader returns the expected counts of results when each byte is changed") {
  test::check_answers("tfrecord", kSeeds + "tfrecord", {".tfrecord"},
                      [](const Path& path) { return samples(read_tfrecord(path)); });
}

}  // namespace trainer::data
