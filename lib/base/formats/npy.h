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
  std::size_t offset = 0;  // where the elements start, in C order
};

// `source` is used in messages. Throws DataError, for Fortran order too.
NpyHeader read_npy_header(std::span<const std::uint8_t> content, const std::string& source);

// The start of a file in C order up to its elements; `type` as NumPy writes it, e.g. "<f4".
std::string npy_header(const std::string& type, const std::vector<std::int64_t>& dims);

}  // namespace trainer
