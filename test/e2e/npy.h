// Writes arrays for the tests of the program.
#pragma once

#include <fstream>
#include <string>
#include <vector>

#include "base/files/files.h"

namespace trainer::e2e {

// Writes an array of version 1.0 of NumPy's format. `type` is NumPy's, such as "<f4".
template <class T>
void write_npy(const Path& path, const std::string& type, const std::vector<int>& dims,
               const std::vector<T>& values) {
  std::string shape;
  for (const int dim : dims) shape += std::to_string(dim) + ", ";
  std::string header =
      "{'descr': '" + type + "', 'fortran_order': False, 'shape': (" + shape + "), }";
  header.append((64 - (header.size() + 11) % 64) % 64, ' ');
  header += '\n';
  std::ofstream file(path, std::ios::binary);
  file << "\x93NUMPY\x01" << '\0' << static_cast<char>(header.size() & 255)
       << static_cast<char>(header.size() >> 8) << header;
  file.write(reinterpret_cast<const char*>(values.data()),
             static_cast<std::streamsize>(values.size() * sizeof(T)));
}

}  // namespace trainer::e2e
