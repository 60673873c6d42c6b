// Reads datatypes and dataspaces of an HDF5 file. Internal to checkpoint.
#pragma once

#include <optional>
#include <vector>

#include "checkpoint/hdf5/input.h"

namespace trainer::checkpoint::hdf5 {

// The format of an element.
struct Datatype {
  enum class Kind { kInteger, kFloat, kBfloat, kText, kVariableText, kOther };
  Kind kind = Kind::kOther;
  std::uint32_t bytes = 0;
  bool big_endian = false, is_signed = false;
};
Datatype read_datatype(const Input& input, View message);

struct Dataspace {
  std::vector<std::uint64_t> extents;  // none for one number
  bool is_null = false;                // no element at all
  // Returns the number of elements; nothing if it is more than a file can hold.
  std::optional<std::uint64_t> elements() const;
};
Dataspace read_dataspace(const Input& input, View message);

// Converts whole elements of a type of numbers to float32.
void convert(const Datatype& type, View from, float* to);

}  // namespace trainer::checkpoint::hdf5
