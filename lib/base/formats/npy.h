// The header of NPY files. https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace trainer {

struct NpyHeader {
  std::string type;  // "f4", "u1": kind and bytes of an element
  bool big_endian = false;
  std::vector<std::int64_t> dims;
  std::size_t offset = 0;  // the place of the first element; the order is C
};

// Reads the header at the start of `content`. `source` names the file in messages. Throws DataError
// for a damaged header, structured elements or Fortran order.
NpyHeader read_npy_header(std::span<const std::uint8_t> content, const std::string& source);

// Returns the start of a file in C order up to its elements. `type` is in NumPy's notation, such as
// "<f4".
std::string npy_header(const std::string& type, const std::vector<std::int64_t>& dims);

}  // namespace trainer
