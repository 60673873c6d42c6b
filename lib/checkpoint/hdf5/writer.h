// Writes HDF5 files in the layout that every version of the library and h5py read. Internal to
// checkpoint.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/files/files.h"
#include "base/types.h"

namespace trainer::checkpoint::hdf5 {

// Builds a file in memory. Names are paths from the root ("/layers/dense"). Creates the groups on
// the path to an object.
class Writer {
 public:
  Writer();
  ~Writer();
  void group(const std::string& name);
  void text(const std::string& object, const std::string& attribute, const std::string& value);
  // Writes a list of texts. Divides a long list into pieces "<attribute>0", "<attribute>1", as
  // Keras does.
  void texts(const std::string& object, const std::string& attribute,
             const std::vector<std::string>& values);
  void dataset(const std::string& name, const Shape& shape, std::span<const float> values);
  // Returns the whole file. The writer is empty afterwards.
  Bytes finish();

 private:
  struct Node;
  Node& at(const std::string& name);

  std::unique_ptr<Node> root_;
  Bytes file_;
};

}  // namespace trainer::checkpoint::hdf5
