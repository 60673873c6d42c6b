// The groups, texts and tensors of an HDF5 file as Keras and h5py write it by default. Internal to
// checkpoint.
// Reasons: lib/decisions/checkpoint.md#the-hdf5-reader-is-our-own.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "checkpoint/hdf5/values.h"

namespace trainer::checkpoint::hdf5 {

// A file in memory, which must outlive the reader. `path` is used in messages. All functions throw
// DataError when what they need is damaged. No file makes them crash, run for ever or take more
// memory than some times what the file holds unpacked.
class Reader {
 public:
  Reader(std::string path, View content);

  // The groups and datasets directly below a group, in the order of their names.
  struct Children {
    std::vector<std::string> groups, datasets;
  };
  Children children(const std::string& group);
  // Where an object lies: the same for all links to it.
  std::uint64_t address(const std::string& object);
  bool exists(const std::string& name);
  // An attribute of text or of a list of texts; Keras cuts long lists in pieces "<name>0",
  // "<name>1". Empty when there is none.
  std::vector<std::string> texts(const std::string& object, const std::string& attribute);
  bool has_texts(const std::string& object, const std::string& attribute);
  // A dataset of numbers as float32, in a tensor called `name`.
  Tensor tensor(const std::string& dataset, const std::string& name);
  [[noreturn]] void fail(const std::string& what) const { input_.fail(what); }

 private:
  const Object& object_at(std::uint64_t address);
  const Object& object(const std::string& path);
  // The address of the object, or kUndefined.
  std::uint64_t find(const std::string& path);

  Input input_;
  std::uint64_t root_;
  std::map<std::uint64_t, Object> objects_;  // by address
  GlobalHeap heap_;
};

}  // namespace trainer::checkpoint::hdf5
