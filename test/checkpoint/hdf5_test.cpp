// HDF5 files as h5py stores them, files that no Keras writes, and files with changed bits.
#include <doctest/doctest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <random>

#include "base/files/files.h"
#include "checkpoint/hdf5/reader.h"
#include "checkpoint/hdf5/writer.h"
#include "checkpoint/keras.h"
#include "checkpoint/weights.h"
#include "support/source_files.h"

namespace trainer::checkpoint {
namespace {

Path file(const std::string& name) { return test::source_file("test/checkpoint/hdf5/") + name; }

// What make_hdf5_files.py stores in dataset k.
std::vector<float> load_values(int k, std::size_t count, bool integers) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = static_cast<float>(k) + static_cast<float>(i) / (integers ? 1.0f : 8.0f);
  }
  return values;
}

KerasLayer dense(const std::string& name, std::int64_t units) {
  KerasLayer layer{name, "Dense", {}};
  const auto count = static_cast<std::size_t>(3 * units);
  layer.weights.push_back({"kernel", {"", Shape{3, units}, load_values(0, count, true)}});
  layer.weights.push_back({"bias", {"", Shape{units}, std::vector<float>(count / 3, 0.5f)}});
  return layer;
}

std::uint64_t peak_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
}

// Sanitizers keep freed memory.
constexpr bool kMeasuresMemory =
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    false;
#else
    true;
#endif

// How many of `tries` copies of `sound`, each changed by `change`, are rejected. Whatever the copy
// is, it is read or rejected with a DataError, in bounded memory.
template <class Change>
int count_rejected(const Bytes& sound, int tries, std::uint64_t seed, const Change& change) {
  std::mt19937_64 random(seed);
  const std::uint64_t before = peak_bytes();
  int refused = 0;
  for (int i = 0; i < tries; ++i) {
    Bytes bytes = sound;
    change(bytes, random);
    try {
      std::size_t elements = 0;
      for (const Tensor& tensor : read_keras_h5("changed.h5", bytes)) {
        elements += tensor.values.size();
        REQUIRE(tensor.shape.elements() == static_cast<std::int64_t>(tensor.values.size()));
      }
      REQUIRE(elements <= 1100 * sound.size());
    } catch (const DataError&) {
      ++refused;
    }
  }
  if (kMeasuresMemory) CHECK(peak_bytes() - before < 64u << 20);
  return refused;
}

void flip_bit(Bytes& bytes, std::mt19937_64& random) {
  bytes[random() % bytes.size()] ^= static_cast<std::uint8_t>(1u << random() % 8);
}

// Numbers that readers trust: sizes, addresses, counts.
void write_number(Bytes& bytes, std::mt19937_64& random) {
  const std::uint64_t numbers[] = {
      0,     1,        0xff,       0xffff,       0xffffffff,
      ~0ull, 1u << 31, 1ull << 62, bytes.size(), random() % bytes.size()};
  const std::uint64_t number = numbers[random() % std::size(numbers)];
  const std::size_t width = std::size_t{1} << random() % 4;
  std::memcpy(bytes.data() + random() % (bytes.size() - 8), &number, width);
}

}  // namespace

TEST_CASE("read_weights returns the same tensors for every way in which h5py stores them") {
  for (const char* name : {"plain.h5", "variable.h5", "packed.h5"}) {
    CAPTURE(name);
    const std::vector<Tensor> tensors = read_weights(file(name)).tensors;
    REQUIRE(tensors.size() == 9);
    for (int k = 0; k < 9; ++k) {
      CAPTURE(k);
      const Tensor& tensor = tensors[static_cast<std::size_t>(k)];
      CHECK(tensor.name == concat("layer", k, "/kernel"));
      CHECK(tensor.shape == Shape{{5, 7, 3}});
      CHECK(tensor.values == load_values(k, 105, k >= 5));
    }
  }
}

TEST_CASE("read_weights returns the values inside where chunks reach beyond an HDF5 dataset") {
  const std::vector<Tensor> tensors = read_weights(file("chunked.h5")).tensors;
  REQUIRE(tensors.size() == 2);
  CHECK(tensors[0].values == load_values(0, 105, false));
  CHECK(tensors[1].values == load_values(1, 105, false));
}

TEST_CASE("read_weights reads an HDF5 dataset of 32 dimensions") {
  const std::vector<Tensor> tensors = read_weights(file("ranks.h5")).tensors;
  REQUIRE(tensors.size() == 1);
  CHECK(tensors[0].shape.rank() == 32);
  CHECK(tensors[0].values == load_values(0, 105, false));
}

TEST_CASE("read_weights returns the same tensors from newer HDF5 headers and large groups") {
  const std::vector<Tensor> ordered = read_weights(file("ordered.h5")).tensors;
  REQUIRE(ordered.size() == 2);
  CHECK(ordered[0].name == "a/kernel");
  CHECK(ordered[1].values == load_values(1, 105, false));
  const std::vector<Tensor> latest = read_weights(file("latest.h5")).tensors;
  REQUIRE(latest.size() == 1);
  CHECK(latest[0].values == load_values(0, 105, false));
  const std::vector<Tensor> times = read_weights(file("times.h5")).tensors;
  REQUIRE(times.size() == 1);
  CHECK(times[0].values == latest[0].values);
  const std::vector<Tensor> many = read_weights(file("many.h5")).tensors;
  REQUIRE(many.size() == 60);
  CHECK(many[59].name == "dense/059");
  CHECK(many[59].values == std::vector<float>{59.0f});
}

TEST_CASE("write_keras_h5: read_weights() reads back any number of layers") {
  const TemporaryFolder folder;
  for (const int count : {1, 8, 9, 300, 2100}) {  // trees of one, two and three levels
    for (const KerasLayout layout : {KerasLayout::kApplications, KerasLayout::kKeras3}) {
      CAPTURE(count);
      std::vector<KerasLayer> layers;
      for (int i = 0; i < count; ++i) layers.push_back(dense(concat("layer_", i), i % 5 + 1));
      const Path path = folder.path() / "written.h5";
      write_keras_h5(path, layers, layout);
      std::map<std::string, Tensor> read;
      for (Tensor& tensor : read_weights(path).tensors) read[tensor.name] = std::move(tensor);
      REQUIRE(read.size() == 2 * layers.size());
      for (const KerasLayer& layer : layers) {
        const bool named = layout == KerasLayout::kApplications;
        const Tensor& kernel = read.at(layer.name + (named ? "/kernel" : "/0"));
        REQUIRE(kernel.shape == layer.weights[0].second.shape);
        REQUIRE(kernel.values == layer.weights[0].second.values);
        REQUIRE(read.at(layer.name + (named ? "/bias" : "/1")).values ==
                layer.weights[1].second.values);
      }
    }
  }
}

TEST_CASE("read_weights gives the reason for HDF5 files that Keras does not write") {
  const auto refused = [](const char* name, const char* why) {
    CAPTURE(name);
    CHECK_THROWS_WITH_AS(read_weights(file(name)), doctest::Contains(why), DataError);
  };
  refused("deeper.h5", "nests more than 32 groups");
  CHECK(read_weights(file("deep.h5")).tensors.size() == 1);  // 32
  refused("loop.h5", "links the group '/layers/dense/a' twice");
  refused("claims.h5", "'/layers/dense/vars/0' claims 4294967296 numbers, but holds 0 bytes");
  refused("claims_packed.h5", "'/layers/dense/vars/0' claims 4294967296 numbers, but holds 0");
  refused("soft_link.h5", "the soft link '0', which Keras does not write");
  refused("external_link.h5", "link, which Keras does not write");
  refused("external_data.h5", "a dataset in another file, which Keras does not write");
  refused("fractal_heap.h5", "a group in the newer layout for many objects");
  refused("hole.h5", "'/layers/dense/vars/0' claims 100 numbers, but holds 200 bytes");
  refused("text.h5", "'/layers/dense/vars/0' holds no numbers");
}

TEST_CASE("read_weights rejects an HDF5 file whose offsets or lengths are not 8 bytes") {
  const std::string sound = read_text_file(file("plain.h5"));
  REQUIRE(sound[8] == 0);  // the superblock's version: bytes 13 and 14 are the sizes
  for (const std::size_t at : {13, 14}) {
    std::string other = sound;
    REQUIRE(other[at] == 8);
    other[at] = 4;
    const TemporaryFolder folder;
    write_file_atomic(folder.path() / "x.h5", other);
    CHECK_THROWS_WITH_AS(read_weights(folder.path() / "x.h5"),
                         doctest::Contains("addresses that are not 8 bytes"), DataError);
  }
}

TEST_CASE("read_keras_h5 rejects datasets that overlap in the file") {
  hdf5::Writer writer;
  writer.dataset("/layers/a/vars/0", Shape{10000}, std::vector<float>(10000, 1.0f));
  writer.dataset("/layers/b/vars/0", Shape{7}, std::vector<float>(7, 2.0f));
  Bytes bytes = writer.finish();
  REQUIRE(read_keras_h5("shared.h5", bytes).at(1).values == std::vector<float>(7, 2.0f));
  const auto replace = [&](const Bytes& from, const Bytes& to) {
    const auto at = std::search(bytes.begin(), bytes.end(), from.begin(), from.end());
    REQUIRE(at != bytes.end());
    std::copy(to.begin(), to.end(), at);
  };
  // A dataspace of rank 1, and a layout of version 3: contiguous, an address, a size.
  replace({1, 1, 0, 0, 0, 0, 0, 0, 7, 0}, {1, 1, 0, 0, 0, 0, 0, 0, 0x10, 0x27});
  replace({3, 1, 0xa0, 0x9c, 0, 0, 0, 0, 0, 0, 28, 0}, {3, 1, 96, 0, 0, 0, 0, 0, 0, 0, 0x40, 0x9c});
  CHECK_THROWS_WITH_AS(read_keras_h5("shared.h5", bytes),
                       doctest::Contains("a dataset overlaps with other parts of the file"),
                       DataError);
}

TEST_CASE("read_keras_h5 rejects a file cut at any byte") {
  for (const char* name : {"plain.h5", "variable.h5", "ordered.h5", "latest.h5"}) {
    CAPTURE(name);
    const Bytes sound = read_file(file(name));
    for (std::size_t size = 0; size < sound.size(); size += 1 + size / 50) {
      CAPTURE(size);
      const std::span<const std::uint8_t> start(sound.data(), size);
      CHECK_THROWS_AS(read_keras_h5(name, start), DataError);
    }
  }
}

TEST_CASE("read_keras_h5 ends in bounded time and memory for random changes of a file") {
  KerasLayer layer = dense("d", 2);
  const TemporaryFolder folder;
  const Path own = folder.path() / "own.h5";
  write_keras_h5(own, {layer}, KerasLayout::kApplications);
  for (const Path& path : {own, file("plain.h5"), file("variable.h5"), file("packed.h5"),
                           file("ordered.h5"), file("latest.h5")}) {
    CAPTURE(path);
    const Bytes sound = read_file(path);
    CHECK(count_rejected(sound, 6000, 1, flip_bit) > 100);
    CHECK(count_rejected(sound, 6000, 2, write_number) > 100);
    const auto several = [](Bytes& bytes, std::mt19937_64& random) {
      for (int i = 0; i < 10; ++i) write_number(bytes, random);
    };
    CHECK(count_rejected(sound, 1000, 3, several) > 100);
  }
}

}  // namespace trainer::checkpoint
