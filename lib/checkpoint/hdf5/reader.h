// Reads the groups, texts and tensors of an HDF5 file as Keras and h5py write it by default.
// Internal to checkpoint. Reasons: lib/decisions/checkpoint.md#the-hdf5-reader-is-our-own.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "checkpoint/hdf5/object.h"
#include "checkpoint/hdf5/texts.h"
#include "checkpoint/tensor_file.h"

namespace trainer::checkpoint::hdf5 {

// Reads a file in memory, which must outlive the reader. `path` is used in messages. All functions
// throw DataError if the structures that they read are damaged. With any file they end, and take at
// most a few times the memory of its unpacked content.
class Reader {
 public:
  Reader(std::string path, View bytes, Content content = Content::kAll);

  // Returns the groups and datasets directly below a group, in the order of their names.
  struct Children {
    std::vector<std::string> groups, datasets;
  };
  Children children(const std::string& group);
  // Returns the address of an object, which is the same for all links to it.
  std::uint64_t address(const std::string& object);
  bool exists(const std::string& name);
  // Returns an attribute that is a text or a list of texts; empty if there is none. Keras divides
  // long lists into pieces "<name>0", "<name>1".
  std::vector<std::string> texts(const std::string& object, const std::string& attribute);
  bool has_texts(const std::string& object, const std::string& attribute);
  // Returns a dataset of numbers as float32, in a tensor named `name`; without them for kShapes.
  Tensor tensor(const std::string& dataset, const std::string& name);
  [[noreturn]] void fail(const std::string& what) const { input_.fail(what); }

 private:
  const Object& object_at(std::uint64_t address);
  const Object& object(const std::string& path);
  // Returns the address of the object, or kUndefined.
  std::uint64_t find(const std::string& path);

  Content content_;
  Input input_;
  std::uint64_t root_;
  std::map<std::uint64_t, Object> objects_;  // keyed by address
  GlobalHeap heap_;
};

}  // namespace trainer::checkpoint::hdf5
