#include "support/changed_bytes.h"

#include <doctest/doctest.h>

#include "checkpoint/safetensors.h"
#include "checkpoint/weights.h"

namespace trainer::checkpoint {
namespace {

std::string summary(const std::vector<Tensor>& tensors) {
  std::string text = concat(tensors.size(), " tensors");
  for (const Tensor& tensor : tensors) {
    const std::span bytes(reinterpret_cast<const std::uint8_t*>(tensor.values.data()),
                          tensor.values.size() * sizeof tensor.values[0]);
    text += concat(" ", tensor.name, "=", to_string(tensor.shape), "#", crc32c(bytes));
  }
  return text;
}

std::string weights(const Path& path) { return summary(read_weights(path).tensors); }

const std::string kSeeds = "test/fuzz/seeds/", kFiles = "test/checkpoint/hdf5";

}  // namespace

TEST_CASE("safetensors: readers return the expected counts of results when each byte is changed") {
  const auto read = [](const Path& path) {
    const TensorFile file = read_safetensors(path);
    std::string text = summary(file.tensors);
    for (const auto& [key, value] : file.metadata) text += concat(" ", key, ":", value);
    return text;
  };
  test::check_answers("safetensors", kSeeds + "safetensors", {".safetensors"}, read);
}

TEST_CASE(
    "weights in NPZ: readers return the expected counts of results when each byte is changed") {
  test::check_answers("npz_weights", kSeeds + "weights", {".npz"}, weights);
}

TEST_CASE(
    "weights in .keras: readers return the expected counts of results when each byte is changed") {
  test::check_answers("keras", kSeeds + "weights", {"latest.h5.keras"}, weights,
                      test::Changes::kOnePerByte);
}

TEST_CASE(
    "HDF5 of Keras: readers return the expected counts of results when each byte is changed") {
  test::check_answers("hdf5", kSeeds + "weights", {".h5"}, weights);
}

TEST_CASE(
    "HDF5 with chunks and links: readers return the expected counts when each byte is changed") {
  test::check_answers("hdf5_chunks", kFiles, {"claims_packed.h5", "external_data.h5", "hole.h5"},
                      weights);
}

TEST_CASE("HDF5 with long headers: readers return the expected counts when each byte is changed") {
  test::check_answers("hdf5_headers", kFiles, {"ordered.h5", "ranks.h5", "times.h5"}, weights);
}

}  // namespace trainer::checkpoint
