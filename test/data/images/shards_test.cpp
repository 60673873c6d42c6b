// Tar shards and TFRecord files: seeds of test/fuzz/make_shards.py, written by Python's tarfile and
// by TensorFlow.
#include "data/images/listing/shards.h"

#include <doctest/doctest.h>

#include "data/image_split.h"
#include "data/images/image_files.h"
#include "data/images/listing/image_list.h"
#include "data/open.h"
#include "support/source_files.h"
#include "support/write_unsynced.h"

namespace trainer::data::shards_test {
namespace {

std::string seed(const std::string& name) { return test::source_file("test/fuzz/seeds/" + name); }

Bytes read_content(const std::string& path) {
  const std::string text = read_text_file(path);
  return {text.begin(), text.end()};
}

config::Data build_shards(config::DataFormat format, const fs::path& train) {
  config::Data config = build_config("");
  config.format = format;
  config.train.path = train;
  return config;
}

std::string catch_error(const std::function<void()>& call) {
  try {
    call();
    return "";
  } catch (const DataError& error) {
    return error.what();
  }
}

void check_samples(const std::vector<ShardSample>& samples, const std::string& path) {
  const Bytes file = read_content(path);
  for (const ShardSample& sample : samples) {
    CAPTURE(sample.name);
    REQUIRE(sample.offset + sample.bytes <= static_cast<std::int64_t>(file.size()));
    CHECK(file[static_cast<std::size_t>(sample.offset)] == 'P');  // a PNM
    CHECK(file[static_cast<std::size_t>(sample.offset) + 1] == '6');
  }
}

}  // namespace

TEST_CASE("tar shards: images and their classes are read for the headers of any program") {
  for (const char* name : {"ustar.tar", "gnu.tar", "pax.tar"}) {
    CAPTURE(name);
    const std::string path = seed(std::string("tar/") + name);
    const auto samples = read_tar_shard(path);
    REQUIRE(samples.size() == 4);
    check_samples(samples, path);
    CHECK(samples[0].name == "a/0000.ppm");
    CHECK(samples[0].label == "1");
    CHECK(samples[1].label == "0");
    CHECK(samples[2].label == "2");  // of a .json file
    CHECK(samples[3].name.size() > 100);
    CHECK(samples[3].label == "1");
  }
}

TEST_CASE(
    "read_tfrecord reads images and labels of a file of TensorFlow for any order of features") {
  const std::string path = seed("tfrecord/tensorflow.tfrecord");
  const auto samples = read_tfrecord(path);
  REQUIRE(samples.size() == 4);
  check_samples(samples, path);
  CHECK(samples[0].label == "1");
  CHECK(samples[1].label == "0");
  CHECK(samples[2].label == "2");
  CHECK(samples[3].label == "1");
  CHECK(samples[3].name == "record 3");
}

TEST_CASE("shards: images of several files are read in any order") {
  for (const bool tar : {true, false}) {
    CAPTURE(tar);
    const TemporaryFolder folder;
    const std::string from = seed(tar ? "tar/ustar.tar" : "tfrecord/tensorflow.tfrecord");
    for (const char* name : {"b", "a"}) {
      fs::copy_file(from, folder.path() / concat(name, tar ? ".tar" : ".tfrecord"));
    }
    const auto format = tar ? config::DataFormat::kWebDataset : config::DataFormat::kTfRecord;
    const Datasets sets = open_datasets(build_shards(format, folder.path()), 1);
    REQUIRE(sets.train->size() == 8);
    CHECK(sets.num_classes == 3);
    CHECK(sets.classes == std::vector<std::string>{"0", "1", "2"});
    CHECK(sets.train->label_at(6) == 2);
    CHECK(load_image(*sets.train, 1) == load_image(*sets.train, 5));
    CHECK(load_image(*sets.train, 1) != load_image(*sets.train, 2));
    CHECK(sets.train->describe(4).find(tar ? "b.tar: a/0000.ppm" : "b.tfrecord: record 0") !=
          std::string::npos);
    const std::string before = sets.train->fingerprint();
    fs::remove(folder.path() / (tar ? "b.tar" : "b.tfrecord"));
    CHECK(open_datasets(build_shards(format, folder.path()), 1).train->fingerprint() != before);
    config::Data named = build_shards(format, folder.path());
    named.classes = {"x", "y"};
    CHECK(catch_error([&] {
            open_datasets(named, 1);
          }).find("the label '2' is not a class; the classes are x, y (or 0 to 1)") !=
          std::string::npos);
  }
}

TEST_CASE("tfrecord: shards of several splits in one folder are not trained on together") {
  const TemporaryFolder folder;
  const std::string from = seed("tfrecord/tensorflow.tfrecord");
  for (const char* name : {"train-00000-of-00002.tfrecord", "train-00001-of-00002.tfrecord"}) {
    fs::copy_file(from, folder.path() / name);
  }
  config::Data config = build_config(folder.path());
  config.format = config::DataFormat::kTfRecord;
  CHECK(open_datasets(config, 1).train->size() == 8);
  fs::copy_file(from, folder.path() / "validation-00000-of-00001.tfrecord");
  CHECK(catch_error([&] { open_datasets(config, 1); })
            .find("contains shards of several splits, e.g. train-00000-of-00002.tfrecord, "
                  "validation-00000-of-00001.tfrecord") != std::string::npos);
  fs::create_directories(folder.path() / "Valid");
  fs::create_directories(folder.path() / "Training");
  fs::copy_file(from, folder.path() / "Training" / "0.tfrecord");
  fs::copy_file(from, folder.path() / "Valid" / "0.tfrecord");
  const Datasets sets = open_datasets(config, 1);
  CHECK(sets.train->size() == 4);
  CHECK(sets.validation->size() == 4);
}

namespace {

// Bytes that this process has read of files.
std::int64_t bytes_read() {
  std::ifstream file("/proc/self/io");
  std::string key;
  std::int64_t value = 0;
  file >> key >> value;
  REQUIRE(key == "rchar:");
  return value;
}

}  // namespace

TEST_CASE("shards and csv lists are read once, with and without data.classes") {
  const TemporaryFolder folder;
  std::int64_t bytes = 0;
  for (int i = 0; i < 200; ++i) {
    const fs::path shard = folder.path() / concat(i, ".tfrecord");
    fs::copy_file(seed("tfrecord/tensorflow.tfrecord"), shard);
    bytes += static_cast<std::int64_t>(fs::file_size(shard));
  }
  write_image(folder.path() / "a.ppm", 4, 4, 1);
  std::string lines = "path,label\n";
  for (int i = 0; i < 20000; ++i) lines += concat("a.ppm,", i % 3, '\n');
  write_text(folder.path() / "list.csv", lines);
  config::Data csv = build_shards(config::DataFormat::kCsv, folder.path() / "list.csv");
  for (const auto& [config, size] :
       {std::pair{build_shards(config::DataFormat::kTfRecord, folder.path()), bytes},
        {csv, static_cast<std::int64_t>(lines.size())}}) {
    for (const bool named : {false, true}) {
      CAPTURE(named);
      config::Data each = config;
      if (named) each.classes = {"0", "1", "2"};
      const std::int64_t before = bytes_read();
      SplitImages images(each, image_split(each, Split::kTrain));
      const std::vector<std::string> classes = images.class_names();
      const ImageList list = std::move(images).list(classes);
      const std::int64_t read = bytes_read() - before;
      CHECK(classes.size() == 3);
      CHECK(!list.files.empty());
      CHECK(read >= size);
      CHECK(read < size * 3 / 2);
    }
  }
}

TEST_CASE("shards: the error of a Parquet file has the next step") {
  const TemporaryFolder folder;
  write_text(folder.path() / "train.parquet", "PAR1");
  const fs::path file = folder.path() / "train.parquet";
  for (const auto format : {config::DataFormat::kWebDataset, config::DataFormat::kTfRecord}) {
    for (const fs::path& path : {folder.path(), file}) {
      const std::string error = catch_error([&] { open_datasets(build_shards(format, path), 1); });
      CHECK(error.starts_with(file.string() + ": Parquet files are not read"));
      CHECK(error.find("configs/guide_own_images.md") != std::string::npos);
    }
  }
}

TEST_CASE("shards: the error of damaged bytes has their position") {
  const TemporaryFolder folder;
  const fs::path path = folder.path() / "x";
  const auto check_flips = [&](const Bytes& file, const std::function<void()>& read) {
    int refused = 0, flips = 0;
    for (std::size_t i = 0; i < file.size(); i += 5, ++flips) {
      Bytes damaged = file;
      damaged[i] ^= 0x41;
      test::write_unsynced(path, std::span<const std::uint8_t>(damaged));
      refused += catch_error(read).empty() ? 0 : 1;
    }
    return static_cast<double>(refused) / flips;
  };
  // Every byte of a TFRecord lies below a checksum, of a tar file those of the headers.
  const Bytes record = read_content(seed("tfrecord/tensorflow.tfrecord"));
  CHECK(check_flips(record, [&] { read_tfrecord(path); }) == 1);
  const Bytes tar = read_content(seed("tar/ustar.tar"));
  CHECK(check_flips(tar, [&] { read_tar_shard(path); }) > 0.3);
  int whole = 0;  // files that end where a record does
  for (std::size_t size = 1; size < record.size(); ++size) {
    test::write_unsynced(path, std::span<const std::uint8_t>(record.data(), size));
    const std::string error = catch_error([&] { read_tfrecord(path); });
    whole += error.empty() ? 1 : 0;
    CHECK((error.empty() || error.find("at byte") != std::string::npos));
  }
  CHECK(whole == 3);
  // In the middle of the last image, which itself nothing reads yet.
  const std::vector<ShardSample> samples = [&] {
    write_file_atomic(path, tar);
    return read_tar_shard(path);
  }();
  const ShardSample& last = *std::max_element(
      samples.begin(), samples.end(),
      [](const ShardSample& a, const ShardSample& b) { return a.offset < b.offset; });
  const auto middle = static_cast<std::size_t>(last.offset + last.bytes / 2);
  write_file_atomic(path, std::span<const std::uint8_t>(tar.data(), middle));
  CHECK(catch_error([&] { read_tar_shard(path); }).find("is truncated or damaged") !=
        std::string::npos);
  write_text(path,
             "no tar file, and no record either; but longer than a header" + std::string(999, 'x'));
  CHECK(catch_error([&] { read_tar_shard(path); }) ==
        path.string() + ": is not a tar file; compressed archives have to be unpacked first");
  CHECK(catch_error([&] { read_tfrecord(path); }).find("this is not a TFRecord file") !=
        std::string::npos);
}

}  // namespace trainer::data::shards_test
