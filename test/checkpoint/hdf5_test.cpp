// HDF5 files that no writer of weights makes.
#include "checkpoint/hdf5.h"

#include <doctest/doctest.h>

#include "checkpoint/weights.h"

namespace trainer::checkpoint {
namespace {

using hdf5::Handle;

Handle create(const Path& path) {
  return Handle(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT), H5Fclose);
}

Handle add_group(hid_t file, const char* name) {
  return Handle(H5Gcreate2(file, name, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), H5Gclose);
}

}  // namespace

TEST_CASE("a group that is linked below itself is an error") {
  const TemporaryFolder folder;
  const Path path = folder.path() / "loop.weights.h5";
  {
    const Handle file = create(path);
    add_group(file, "/layers");
    add_group(file, "/layers/dense");
    REQUIRE(H5Lcreate_hard(file, "/layers", file, "/layers/dense/a", H5P_DEFAULT, H5P_DEFAULT) >=
            0);
  }
  CHECK_THROWS_WITH_AS(read_weights(path),
                       doctest::Contains("links the group '/layers/dense/a' twice"), DataError);
}

TEST_CASE("a dataset cannot claim more numbers than its file holds") {
  const TemporaryFolder folder;
  const Path path = folder.path() / "large.weights.h5";
  const auto write = [&](hsize_t extent, bool packed, bool filled) {
    const Handle file = create(path);
    add_group(file, "/layers");
    add_group(file, "/layers/dense");
    add_group(file, "/layers/dense/vars");
    const Handle space(H5Screate_simple(1, &extent, nullptr), H5Sclose);
    const Handle layout(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
    const hsize_t chunk = 1000;
    H5Pset_chunk(layout, 1, &chunk);
    if (packed) H5Pset_deflate(layout, 9);
    const Handle data(H5Dcreate2(file, "/layers/dense/vars/0", H5T_IEEE_F32LE, space, H5P_DEFAULT,
                                 layout, H5P_DEFAULT),
                      H5Dclose);
    REQUIRE(data.valid());
    const std::vector<float> ones(static_cast<std::size_t>(filled ? extent : 0), 1.0f);
    if (filled) H5Dwrite(data, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, ones.data());
  };
  for (const bool packed : {false, true}) {
    CAPTURE(packed);
    write(hsize_t{1} << 32, packed, false);
    CHECK_THROWS_WITH_AS(read_weights(path),
                         doctest::Contains("'/layers/dense/vars/0' claims 4294967296 numbers, but "
                                           "holds 0 bytes"),
                         DataError);
    write(100'000, packed, true);  // what compresses best
    CHECK(read_weights(path).at(0).values == std::vector<float>(100'000, 1.0f));
  }
}

}  // namespace trainer::checkpoint
