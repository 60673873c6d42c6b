// Images, arrays and lists of files.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>

#include "base/error.h"
#include "base/files/files.h"
#include "data/arrays/array.h"
#include "data/arrays/cifar.h"
#include "data/arrays/idx.h"
#include "data/arrays/npz.h"
#include "data/decode/image_file.h"
#include "data/decode/jpeg_file.h"
#include "data/images/listing/image_list.h"
#include "data/images/listing/relabel.h"
#include "data/images/listing/shards.h"
#include "data/jpeg/plain.h"
#include "fuzz.h"

namespace trainer::fuzz {
namespace {

using data::Array;
using data::Pixels;

// Small, so that no input takes long.
constexpr data::ImageLimits kLimits{1 << 20, 1 << 24};

// That all elements are there to be read.
void read_all(const Array& array) {
  double sum = 0;
  for (std::int64_t i = 0; i < array.count(); ++i) sum += array.at(i);
  use(sum);
}

// Returns a time that no earlier call returned.
std::filesystem::file_time_type next_time() {
  static std::filesystem::file_time_type time = std::filesystem::file_time_type::clock::now();
  return time += std::chrono::seconds(1);
}

void read_all(const Pixels& pixels) {
  unsigned sum = 0;
  for (std::size_t i = 0; i < pixels.size(); ++i) sum += pixels.data()[i];
  use(sum);
}

}  // namespace

// Twice, the second time into memory of other content: nothing may depend on what was there.
void run_images(Bytes input) {
  expect_errors_only([&] {
    const std::string path = "input";
    data::ImageFile file(input, path, kLimits);
    const int channels = input.size() % 2 == 0 ? 3 : 1;
    Pixels first;
    file.decode(channels, 1, first);
    read_all(first);
    if (first.height() != file.info().height || first.width() != file.info().width) {
      found("another size than that of the header");
    }
    Pixels again(first.height() + 1, first.width() + 1, 3);
    std::memset(again.data(), 0xa5, again.size());
    data::ImageFile(input, path, kLimits).decode(channels, 1, again);
    if (again.size() != first.size() ||
        std::memcmp(again.data(), first.data(), first.size()) != 0) {
      found("pixels that depend on what was in the memory");
    }
  });
}

void run_jpeg(Bytes input) {
  expect_errors_only([&] {
    if (input.size() < 4 || input[0] != 0xff || input[1] != 0xd8) return;
    const data::ImageInfo info = data::ImageFile(input, "input", kLimits).info();
    data::jpeg::Header header;
    if (!data::jpeg::read_plain_header(input, header)) return;
    if (header.height != (info.orientation > 4 ? info.width : info.height)) {
      found("another height than the header's");
    }
    const int channels = input.size() % 2 == 0 ? 3 : 1, reduce = 1 << input.size() / 2 % 4;
    Pixels ours, theirs;
    if (!data::jpeg::decode_plain(input, header, channels, reduce, ours)) return;
    std::string warning;
    try {
      warning = data::decode_with_libjpeg(input, "input", channels, reduce, theirs);
    } catch (const DataError& error) {
      found(concat("libjpeg rejects what we decode: ", error.what()));
    }
    if (!warning.empty()) found("libjpeg warns of what we decode: " + warning);
    if (ours.size() != theirs.size() || std::memcmp(ours.data(), theirs.data(), ours.size()) != 0) {
      found("other pixels than libjpeg's");
    }
  });
}

void run_idx(Bytes input) {
  expect_errors_only([&] { read_all(data::read_idx(as_file(input, ".idx"))); });
}

void run_npy(Bytes input) {
  expect_errors_only([&] { read_all(data::read_npy(as_file(input, ".npy"))); });
}

void run_npz(Bytes input) {
  expect_errors_only([&] {
    const std::string& path = as_file(input, ".npz");
    if (!data::is_zip(path)) return;
    std::vector<std::string> names = data::npz_names(path);
    names.resize(std::min<std::size_t>(names.size(), 4));
    for (const std::string& name : names) {
      expect_errors_only([&] { read_all(data::read_npz(path, name)); });
    }
  });
}

void run_csv(Bytes input) {
  expect_errors_only([&] {
    config::Data config;
    config.format = config::DataFormat::kCsv;
    config::SplitFiles split;
    split.path = as_file(input, ".csv");
    data::SplitImages source(config, split);
    const std::vector<std::string> classes = source.class_names();
    data::ImageList list = std::move(source).list(classes);
    for (const data::ListedFile& file : list.files) {
      if (file.label < 0 || static_cast<std::size_t>(file.label) >= classes.size()) {
        found("a label of no class");
      }
    }
    data::draw_files(list, 3, 1);
    data::check_files_exist(list);
  });
}

// A list of three images, whose labels the input corrects.
void run_relabel(Bytes input) {
  expect_errors_only([&] {
    config::Data config;
    config.format = config::DataFormat::kCsv;
    config.train.path = "photos/list.csv";
    config.relabel = as_file(input, ".relabel.csv");
    const std::vector<std::string> classes{"cat", "dog"};
    data::ImageList list;
    list.source = config.train.path;
    list.files = {{"photos/cat/1.png", 0}, {"photos/dog/2.png", 1}, {"photos/dog/3.png", 1}};
    data::Relabel(config).apply(Split::kTrain, classes, list);
    for (const data::ListedFile& file : list.files) {
      if (file.label < 0 || file.label > 1) found("a label of no class");
    }
  });
}

// Reads it as an archive of class folders; images that are listed lie in the file.
void run_zip(Bytes input) {
  expect_errors_only([&] {
    config::Data config;
    config.format = config::DataFormat::kImageFolder;
    config::SplitFiles split;
    split.path = config.path = as_file(input, ".zip");
    // A listing is kept for a file of this size and time.
    std::filesystem::last_write_time(split.path, next_time());
    data::SplitImages source(config, split);
    const std::vector<std::string> classes = source.class_names();
    const data::ImageList list = std::move(source).list(classes);
    const auto size = static_cast<std::int64_t>(input.size());
    std::vector<std::uint8_t> bytes;
    for (const data::ListedFile& file : list.files) {
      if (file.offset < 0 || file.bytes < 0 || file.offset > size ||
          file.bytes > size - file.offset) {
        found("an image outside of its archive");
      }
      expect_errors_only([&] { data::read_image_file(file.stored(), kLimits, bytes); });
    }
  });
}

namespace {

void check_samples(const std::vector<data::ShardSample>& samples, Bytes input) {
  const auto size = static_cast<std::int64_t>(input.size());
  for (const data::ShardSample& sample : samples) {
    if (sample.offset < 0 || sample.bytes < 0 || sample.offset > size ||
        sample.bytes > size - sample.offset) {
      found("an image outside of its file");
    }
  }
}

}  // namespace

void run_tar(Bytes input) {
  expect_errors_only([&] { check_samples(data::read_tar_shard(as_file(input, ".tar")), input); });
}

// Reads it as it is, and with corrected checksums, behind which lies the rest of the reader.
void run_tfrecord(Bytes input) {
  const auto read = [](Bytes bytes) {
    expect_errors_only(
        [&] { check_samples(data::read_tfrecord(as_file(bytes, ".tfrecord")), bytes); });
  };
  read(input);
  const auto put = [](std::vector<std::uint8_t>& to, std::uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) to.push_back(static_cast<std::uint8_t>(value >> (8 * i)));
  };
  const auto mask = [](std::uint32_t crc) { return (crc >> 15 | crc << 17) + 0xa282ead8u; };
  if (input.size() < 16) return;
  const Bytes example = input.subspan(12, input.size() - 16);
  std::vector<std::uint8_t> record;
  put(record, example.size(), 8);
  put(record, mask(crc32c({record.data(), 8})), 4);
  record.insert(record.end(), example.begin(), example.end());
  put(record, mask(crc32c(example)), 4);
  read(record);
}

void run_cifar(Bytes input) {
  expect_errors_only([&] {
    const data::Cifar cifar = data::read_cifar({as_file(input, ".bin")});
    read_all(cifar.images);
    read_all(cifar.labels);
  });
}

}  // namespace trainer::fuzz
