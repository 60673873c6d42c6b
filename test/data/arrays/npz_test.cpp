#include "data/arrays/npz.h"

#include <doctest/doctest.h>
#include <libdeflate.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/files/files.h"
#include "data/arrays/array.h"
#include "data/open.h"
#include "data/open_images.h"
#include "support/write_unsynced.h"

namespace trainer::data {
namespace {

template <class T>
void put(Bytes& bytes, T value) {
  for (const std::uint8_t byte : std::bit_cast<std::array<std::uint8_t, sizeof value>>(value)) {
    bytes.push_back(byte);
  }
}

Bytes npy_bytes(const std::string& descr, const std::string& shape, const Bytes& content,
                const std::string& order = "False", std::uint8_t version = 1) {
  std::string header =
      "{'descr': '" + descr + "', 'fortran_order': " + order + ", 'shape': " + shape + ", }";
  const std::size_t start = version == 1 ? 10 : 12;
  while ((start + header.size() + 1) % 64 != 0) header += ' ';
  header += '\n';
  Bytes bytes{0x93, 'N', 'U', 'M', 'P', 'Y', version, 0};
  if (version == 1) {
    put(bytes, static_cast<std::uint16_t>(header.size()));
  } else {
    put(bytes, static_cast<std::uint32_t>(header.size()));
  }
  bytes.insert(bytes.end(), header.begin(), header.end());
  bytes.insert(bytes.end(), content.begin(), content.end());
  return bytes;
}

struct Member {
  std::string name;
  Bytes content;
  bool deflate = false;
  bool shared = false;  // names the bytes of the member before it again
};

// A zip archive as numpy.savez writes it: a zip64 field in each local header.
Bytes zip_bytes(const std::vector<Member>& members) {
  Bytes zip, directory;
  std::uint32_t offset = 0;
  for (const Member& member : members) {
    Bytes packed = member.content;
    if (member.deflate) {
      libdeflate_compressor* compressor = libdeflate_alloc_compressor(6);
      packed.resize(libdeflate_deflate_compress_bound(compressor, member.content.size()));
      packed.resize(libdeflate_deflate_compress(
          compressor, member.content.data(), member.content.size(), packed.data(), packed.size()));
      libdeflate_free_compressor(compressor);
    }
    const std::uint32_t crc = libdeflate_crc32(0, member.content.data(), member.content.size());
    if (!member.shared) offset = static_cast<std::uint32_t>(zip.size());
    const auto common = [&](Bytes& to, std::uint32_t packed_size, std::uint32_t size,
                            std::uint16_t extra) {
      for (const int v : {45, 0, member.deflate ? 8 : 0, 0, 0}) {
        put(to, static_cast<std::uint16_t>(v));
      }
      put(to, crc);
      put(to, packed_size);
      put(to, size);
      put(to, static_cast<std::uint16_t>(member.name.size()));
      put(to, extra);
    };
    if (!member.shared) {
      put(zip, std::uint32_t{0x04034b50});
      common(zip, 0xFFFFFFFF, 0xFFFFFFFF, 20);
      zip.insert(zip.end(), member.name.begin(), member.name.end());
      put(zip, std::uint16_t{1});
      put(zip, std::uint16_t{16});
      put(zip, std::uint64_t{member.content.size()});
      put(zip, std::uint64_t{packed.size()});
      zip.insert(zip.end(), packed.begin(), packed.end());
    }

    put(directory, std::uint32_t{0x02014b50});
    put(directory, std::uint16_t{45});
    common(directory, static_cast<std::uint32_t>(packed.size()),
           static_cast<std::uint32_t>(member.content.size()), 0);
    for (int i = 0; i < 3; ++i) put(directory, std::uint16_t{0});
    put(directory, std::uint32_t{0});
    put(directory, offset);
    directory.insert(directory.end(), member.name.begin(), member.name.end());
  }
  const auto start = static_cast<std::uint32_t>(zip.size());
  zip.insert(zip.end(), directory.begin(), directory.end());
  put(zip, std::uint32_t{0x06054b50});
  for (const std::size_t v : {std::size_t{0}, std::size_t{0}, members.size(), members.size()}) {
    put(zip, static_cast<std::uint16_t>(v));
  }
  put(zip, static_cast<std::uint32_t>(directory.size()));
  put(zip, start);
  put(zip, std::uint16_t{0});
  return zip;
}

Path write(const TemporaryFolder& folder, const std::string& name, const Bytes& bytes) {
  test::write_unsynced(folder.path() / name, bytes);
  return folder.path() / name;
}

Bytes ramp(std::size_t size) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::uint8_t>(i);
  return bytes;
}

}  // namespace

TEST_CASE("read_npy reads the elements for all types, byte orders, versions and shapes") {
  const TemporaryFolder folder;
  const auto read = [&](const Bytes& bytes) { return read_npy(write(folder, "a.npy", bytes)); };
  const Array bytes = read(npy_bytes("|u1", "(2, 3)", ramp(6)));
  CHECK(bytes.dims == std::vector<std::int64_t>{2, 3});
  CHECK(bytes.at(5) == 5);
  Bytes floats;
  put(floats, 1.5f);
  put(floats, -2.0f);
  CHECK(read(npy_bytes("<f4", "(2,)", floats)).at(1) == -2.0);
  Bytes doubles;
  put(doubles, 0.1);
  CHECK(read(npy_bytes("<f8", "()", doubles, "False", 2)).at(0) == 0.1);
  CHECK(read(npy_bytes(">i2", "(1,)", {1, 2})).at(0) == 258);
  CHECK(read(npy_bytes("<i8", "(1,)", {255, 255, 255, 255, 255, 255, 255, 255})).at(0) == -1);
  CHECK(read(npy_bytes("<i4", "(5,)", Bytes(20), "True")).count() == 5);
}

TEST_CASE("read_npy gives the reason for unsupported files") {
  const TemporaryFolder folder;
  const auto refuses = [&](const Bytes& bytes, const char* why) {
    const Path path = write(folder, "a.npy", bytes);
    CHECK_THROWS_WITH_AS(read_npy(path), doctest::Contains(why), DataError);
  };
  refuses(ramp(20), "is not an NPY file");
  refuses(npy_bytes("<f4", "(2, 2)", Bytes(16), "True"), "Fortran order");
  refuses(npy_bytes("<f4", "(5,)", Bytes(16)), "truncated");
  refuses(npy_bytes("<c8", "(2,)", Bytes(16)), "'c8'");
  refuses(npy_bytes("<U10", "(2,)", Bytes(80)), "unknown type");
  refuses(npy_bytes("|O", "(2,)", Bytes(80)), "contains Python objects (pickled)");
  refuses(npy_bytes("<f4", "2", Bytes(8)), "shape");
  Bytes cut = npy_bytes("|u1", "(2,)", ramp(2));
  cut.resize(40);
  refuses(cut, "ends inside its header");
}

TEST_CASE("read_npz reads the elements of stored and deflated members") {
  const TemporaryFolder folder;
  const Path path =
      write(folder, "a.npz",
            zip_bytes({{"x_train.npy", npy_bytes("|u1", "(50, 2, 2)", ramp(200)), true},
                       {"y_train.npy", npy_bytes("|u1", "(50,)", Bytes(50, 3))}}));
  CHECK(is_zip(path));
  CHECK(npz_names(path) == std::vector<std::string>{"x_train", "y_train"});
  const Array x = read_npz(path, "x_train");
  CHECK(x.dims == std::vector<std::int64_t>{50, 2, 2});
  CHECK(x.at(199) == 199);
  CHECK(read_npz(path, "y_train").at(49) == 3);
  CHECK_THROWS_WITH_AS(read_npz(path, "z"),
                       doctest::Contains("does not contain the array 'z', but x_train, y_train"),
                       DataError);
}

TEST_CASE("read_npz returns an error or the same content for any changed byte") {
  const TemporaryFolder folder;
  const Bytes whole = zip_bytes({{"a.npy", npy_bytes("|u1", "(60,)", ramp(60)), true},
                                 {"b.npy", npy_bytes("|u1", "(60,)", ramp(60))}});
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const Path path =
        write(folder, "a.npz", Bytes(whole.begin(), whole.begin() + static_cast<long>(size)));
    CHECK_THROWS_AS(read_npz(path, "b"), DataError);
  }
  for (std::size_t i = 0; i < whole.size(); ++i) {
    Bytes damaged = whole;
    damaged[i] ^= 0x10;
    const Path path = write(folder, "a.npz", damaged);
    for (const char* name : {"a", "b"}) {
      try {
        const Array array = read_npz(path, name);
        // Bytes that carry nothing, such as dates, may differ; the numbers may not.
        REQUIRE(array.count() == 60);
        for (std::int64_t k = 0; k < 60; ++k) REQUIRE(array.at(k) == static_cast<double>(k));
      } catch (const DataError&) {
      }
    }
  }
}

TEST_CASE("open_datasets finds both splits in one NPZ file with the names of keras.datasets") {
  const TemporaryFolder folder;
  Bytes targets;
  for (int i = 0; i < 8; ++i) put(targets, static_cast<float>(i) / 2);
  config::Data config;
  config.format = config::DataFormat::kNpz;
  config.path = write(folder, "a.npz",
                      zip_bytes({{"x_train.npy", npy_bytes("|u1", "(6, 2, 2)", ramp(24)), true},
                                 {"y_train.npy", npy_bytes("<i8", "(6,)", Bytes(48))},
                                 {"x_test.npy", npy_bytes("|u1", "(4, 2, 2)", ramp(16)), true},
                                 {"y_test.npy", npy_bytes("<i8", "(4,)", Bytes(32))},
                                 {"soft.npy", npy_bytes("<f4", "(4, 2)", targets)}}));
  const Datasets sets = open_datasets(config, 1);
  CHECK(sets.train->size() == 6);
  CHECK(sets.test->size() == 4);
  CHECK(sets.validation == nullptr);
  CHECK(sets.image_shape == Shape{2, 2, 1});
  CHECK(sets.num_classes == 1);

  config.train.images = "x_test";
  config.train.labels = "soft";
  const Datasets soft = open_datasets(config, 1, Split::kTrain);
  CHECK_FALSE(soft.label_is_index);
  CHECK(soft.num_classes == 2);
  std::array<std::uint8_t, 4> image{};
  std::array<float, 2> label{};
  soft.train->get(3, image.data(), label.data());
  CHECK(image == std::array<std::uint8_t, 4>{12, 13, 14, 15});
  CHECK(label == std::array<float, 2>{3.0f, 3.5f});

  config.num_classes = 3;
  CHECK_THROWS_WITH_AS(open_datasets(config, 1, Split::kTrain), doctest::Contains("has 2 numbers"),
                       ConfigError);
  config.train.labels = "nothing";
  CHECK_THROWS_WITH_AS(open_datasets(config, 1),
                       doctest::Contains("does not contain the array 'nothing'"), DataError);
}

TEST_CASE("array files: a small file with a large header is an error before memory is allocated") {
  const TemporaryFolder folder;
  const Path path = folder.path() / "a";
  const auto refuses = [&](const Bytes& file, const std::string& words) {
    write_file_atomic(path, file);
    CHECK_THROWS_WITH_AS(open_images(path.string()), doctest::Contains(words.c_str()), DataError);
  };
  refuses({0, 0, 8, 3, 255, 255, 255, 255, 0, 0, 0, 0, 0, 0, 0, 1},
          "contains no elements: its header gives 4294967295 x 0 x 1");
  refuses(npy_bytes("<f4", "(1152921504606846976, 0)", {}), "contains no elements");
  // Products of 2^64 and more.
  refuses(npy_bytes("|u1", "(4611686018427387904, 4611686018427387904, 0)", {}),
          "contains no elements");
  refuses(npy_bytes("|u1", "(4294967296, 4294967296)", {}), "truncated");
  refuses(npy_bytes("<f4", "(4611686018427387904, 4)", {}), "truncated");
  std::vector<Member> members{{"images.npy", npy_bytes("|u1", "(40, 30, 30)", Bytes(36000)), true}};
  for (int i = 0; i < 1000; ++i)
    members.push_back({concat("m", i), members[0].content, true, true});
  refuses(zip_bytes(members), "two of its members share bytes");
}

TEST_CASE("open_datasets rejects a label far above the number of samples") {
  const TemporaryFolder folder;
  const Bytes labels = npy_bytes("<i8", "(2,)", {0, 0, 0, 0, 0, 0, 0, 0, 6, 7, 8, 9, 0, 0, 0, 0});
  write_file_atomic(folder.path() / "a.npz",
                    zip_bytes({{"x_train.npy", npy_bytes("|u1", "(2, 1, 1)", Bytes(2))},
                               {"y_train.npy", labels}}));
  config::Data config;
  config.format = config::DataFormat::kNpz;
  config.path = (folder.path() / "a.npz").string();
  CHECK_THROWS_WITH_AS(open_datasets(config, 1),
                       doctest::Contains("sample 1 has the label 151521030, which would make "
                                         "151521031 classes of 2 samples"),
                       DataError);
}

TEST_CASE("open_datasets finds the splits of an NPZ file by the names of its arrays") {
  const TemporaryFolder folder;
  const Bytes images = npy_bytes("|u1", "(4, 2, 2)", ramp(16)),
              labels = npy_bytes("|u1", "(4, 1)", {0, 1, 0, 1});
  config::Data config;
  config.format = config::DataFormat::kNpz;
  const auto open = [&](const std::vector<std::string>& names) {
    std::vector<Member> members;
    for (const std::string& name : names) {
      const bool is_image = name.find('x') == 0 || name.find("mages") != std::string::npos;
      members.push_back({name + ".npy", is_image ? images : labels});
    }
    config.path = write(folder, "a.npz", zip_bytes(members)).string();
    return open_datasets(config, 1);
  };
  const auto note = [&](const Datasets& sets) {
    return sets.notices.empty() ? "" : sets.notices.at(0).text;
  };
  for (const std::string name : {"val", "valid", "dev", "validation"}) {
    INFO(name);
    const Datasets med = open({"train_images", "train_labels", name + "_images", name + "_labels",
                               "test_images", "test_labels"});
    CHECK((med.train && med.validation && med.test));
    CHECK(note(med) == "");
    CHECK(has_validation(config));
    CHECK(open({"x_train", "y_train", "x_" + name, "y_" + name}).validation);
  }
  CHECK(open({"trainImages", "trainLabels", "images_test", "labels_test"}).test);
  const Datasets spare = open({"x_train", "y_train", "train_images", "mean"});
  CHECK(!spare.validation);
  CHECK(!has_validation(config));
  CHECK(spare.notices.at(0).kind == Notice::Kind::kNote);
  CHECK(note(spare) == config.path +
                           ": not used: train_images, mean; to use an array, name it "
                           "with data.SPLIT.images or data.SPLIT.labels");
  CHECK_THROWS_WITH_AS(open({"x_train", "y_train", "val_images", "valid_images", "y_val"}),
                       doctest::Contains("contains the arrays val_images, valid_images for the "
                                         "images of the validation split; name one of them with "
                                         "data.validation.images"),
                       DataError);
  config.validation_split = 0.5;
  const Datasets divided = open({"x_train", "y_train", "x_val", "y_val"});
  CHECK(divided.validation->size() == 2);
  CHECK(note(divided).find("not used: x_val, y_val") != std::string::npos);
}

TEST_CASE("open_datasets takes columns of 0 and 1 as labels of their own") {
  const TemporaryFolder folder;
  config::Data config;
  config.format = config::DataFormat::kNpz;
  config.columns_are_labels = true;
  const auto open = [&](const Bytes& labels) {
    const Bytes images = npy_bytes("|u1", "(2, 2, 2)", ramp(8));
    config.path =
        write(folder, "a.npz", zip_bytes({{"x_train.npy", images}, {"y_train.npy", labels}}))
            .string();
    return open_datasets(config, 1);
  };
  const auto floats = [](const std::vector<float>& values) {
    Bytes bytes;
    for (const float value : values) put(bytes, value);
    return npy_bytes("<f4", "(2, 2)", bytes);
  };
  const Datasets sets = open(npy_bytes("|u1", "(2, 3)", {1, 0, 1, 0, 1, 0}));
  REQUIRE(sets.train->spec().is_multi_label());
  CHECK(sets.num_classes == 3);
  const auto present = [](const Datasets& data, std::int64_t sample) {
    const auto labels = data.train->label_set_at(sample).present;
    return std::vector<std::int32_t>(labels.begin(), labels.end());
  };
  CHECK(present(sets, 0) == std::vector<std::int32_t>{0, 2});
  CHECK(present(sets, 1) == std::vector<std::int32_t>{1});
  const Datasets unknown = open(floats({1, std::nanf(""), 0, 1}));
  REQUIRE(unknown.train->spec().is_multi_label());
  CHECK(unknown.train->label_set_at(0).unknown[0] == 1);
  CHECK(open(floats({0.25f, 1, 0, 1})).train->spec().label_kind == LabelKind::kTargets);
  CHECK(open(npy_bytes("|u1", "(2, 1)", {0, 1})).train->spec().label_is_index());
  CHECK(open(npy_bytes("|u1", "(2, 1, 3)", Bytes(6))).train->spec().is_multi_label());
  CHECK_THROWS_WITH_AS(open(npy_bytes("|i1", "(2, 2)", {0, 1, 255, 1})),
                       doctest::Contains("a.npz:y_train: the label of sample 1 (from 0) holds -1; "
                                         "binary_cross_entropy takes 0 and 1"),
                       DataError);
  config.columns_are_labels = false;  // other losses
  CHECK(open(npy_bytes("|u1", "(2, 3)", {1, 0, 1, 0, 1, 0})).train->spec().label_kind ==
        LabelKind::kTargets);
}

TEST_CASE("open_datasets rejects images that look like channels first unless the shape is stated") {
  const TemporaryFolder folder;
  config::Data config;
  config.format = config::DataFormat::kNpz;
  config.train.images = write(folder, "x.npy", npy_bytes("|u1", "(2, 3, 5, 6)", Bytes(180)));
  config.train.labels = write(folder, "y.npy", npy_bytes("|u1", "(2,)", {0, 1}));
  CHECK_THROWS_WITH_AS(open_datasets(config, 1),
                       doctest::Contains("are [3, 5, 6], which looks like channels first, but the "
                                         "order is [height, width, channels]: save "
                                         "images.transpose(0, 2, 3, 1) (NumPy)"),
                       ConfigError);
  config.stated_shape = {5, 6, 3};
  CHECK_THROWS_AS(open_datasets(config, 1), ConfigError);
  config.stated_shape = {3, 5, 6};
  CHECK(open_datasets(config, 1).image_shape == Shape{3, 5, 6});
  config.stated_shape = {};
  config::Data archive;
  archive.format = config::DataFormat::kNpz;
  archive.path = write(folder, "a.npz",
                       zip_bytes({{"x_train.npy", npy_bytes("|u1", "(2, 3, 5, 6)", Bytes(180))},
                                  {"y_train.npy", npy_bytes("|u1", "(2,)", {0, 1})}}));
  CHECK_THROWS_WITH_AS(open_datasets(archive, 1),
                       doctest::Contains("a.npz are [3, 5, 6], which looks like channels first"),
                       ConfigError);
  write(folder, "x.npy", npy_bytes("|u1", "(2, 5, 6, 3)", Bytes(180)));
  CHECK(open_datasets(config, 1).image_shape == Shape{5, 6, 3});
}

TEST_CASE("open_datasets reads True as 1") {
  const TemporaryFolder folder;
  config::Data config;
  config.format = config::DataFormat::kNpz;
  config.train.images = write(folder, "x.npy", npy_bytes("|b1", "(2, 1, 2)", {0, 1, 1, 0}));
  config.train.labels = write(folder, "y.npy", npy_bytes("|b1", "(2,)", {1, 0}));
  const Datasets sets = open_datasets(config, 1);
  REQUIRE(sets.image_type == DType::kFloat32);
  std::array<float, 2> image{};
  std::int32_t label = 0;
  sets.train->get(0, image.data(), &label);
  CHECK(image == std::array<float, 2>{0, 1});
  CHECK(label == 1);
}

}  // namespace trainer::data
