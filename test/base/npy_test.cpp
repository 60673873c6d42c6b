#include "base/formats/npy.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "base/error.h"

namespace trainer {
namespace {

using Bytes = std::vector<std::uint8_t>;

Bytes file(const std::string& header, int version = 1) {
  Bytes bytes{0x93, 'N', 'U', 'M', 'P', 'Y', static_cast<std::uint8_t>(version), 0};
  const std::size_t size = header.size();
  for (int byte = 0; byte < (version == 1 ? 2 : 4); ++byte) {
    bytes.push_back(static_cast<std::uint8_t>(size >> (8 * byte)));
  }
  bytes.insert(bytes.end(), header.begin(), header.end());
  return bytes;
}

std::string dict(const std::string& descr, const std::string& order, const std::string& shape) {
  return "{'descr': " + descr + ", 'fortran_order': " + order + ", 'shape': " + shape + ", }\n";
}

std::string catch_error(const Bytes& bytes) {
  try {
    read_npy_header(bytes, "x.npy");
  } catch (const DataError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("read_npy_header reads all versions, byte orders and shapes") {
  const std::string text = dict("'<f4'", "False", "(3, 28, 28)");
  SUBCASE("of version 1") {
    const NpyHeader header = read_npy_header(file(text), "x.npy");
    CHECK(header.type == "f4");
    CHECK_FALSE(header.big_endian);
    CHECK(header.dims == std::vector<std::int64_t>{3, 28, 28});
    CHECK(header.offset == 10 + text.size());
  }
  SUBCASE("of version 2") {
    const NpyHeader header = read_npy_header(file(text, 2), "x.npy");
    CHECK(header.dims == std::vector<std::int64_t>{3, 28, 28});
    CHECK(header.offset == 12 + text.size());
  }
  SUBCASE("of big-endian numbers") {
    CHECK(read_npy_header(file(dict("'>i8'", "False", "(7,)")), "x.npy").big_endian);
  }
  SUBCASE("of one number") {
    CHECK(read_npy_header(file(dict("'|u1'", "False", "()")), "x.npy").dims.empty());
  }
  SUBCASE("whose order does not matter") {
    CHECK(read_npy_header(file(dict("'|u1'", "True", "(7,)")), "x.npy").dims.size() == 1);
  }
}

TEST_CASE("read_npy_header gives the reason for a header that cannot be read") {
  const auto says = [](const Bytes& bytes, const std::string& part) {
    const std::string error = catch_error(bytes);
    CAPTURE(error);
    CHECK(error.starts_with("x.npy: "));
    CHECK(error.find(part) != std::string::npos);
  };
  SUBCASE("no NPY file") { says(Bytes(100, 'x'), "is not an NPY file"); }
  SUBCASE("Fortran order") {
    says(file(dict("'<f4'", "True", "(3, 4)")),
         "is in Fortran order; save numpy.ascontiguousarray");
  }
  SUBCASE("a structure") {
    says(file(dict("[('a', '<f4')]", "False", "(3,)")), "holds structured elements");
  }
  SUBCASE("no shape") {
    says(file("{'descr': '<f4', 'fortran_order': False, }\n"), "its header has no 'shape'");
  }
  SUBCASE("a shape that is not a tuple") {
    says(file(dict("'<f4'", "False", "3")), "cannot read its shape");
  }
}

TEST_CASE("read_npy_header rejects a file cut at any byte") {
  const Bytes whole = file(dict("'<f4'", "False", "(3, 28, 28)"));
  for (std::size_t size = 0; size < whole.size(); ++size) {
    CAPTURE(size);
    CHECK(catch_error({whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)}) != "");
  }
}

TEST_CASE("npy_header: any shape is read back and padded to 64 bytes") {
  for (const std::vector<std::int64_t>& dims :
       {std::vector<std::int64_t>{7}, {3, 5}, {100000, 7, 7, 2048}, {0, 4}}) {
    const std::string text = npy_header("<f4", dims);
    const NpyHeader header = read_npy_header(Bytes(text.begin(), text.end()), "x.npy");
    CHECK(header.type == "f4");
    CHECK_FALSE(header.big_endian);
    CHECK(header.dims == dims);
    CHECK(header.offset == text.size());
    CHECK(text.size() % 64 == 0);
  }
}

}  // namespace trainer
