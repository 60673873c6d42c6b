// HDF5's C API with owners for its handles. Internal to checkpoint.
#pragma once

#include <hdf5.h>

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "checkpoint/checkpoint.h"

namespace trainer::checkpoint::hdf5 {

// A handle and the function that closes it.
class Handle {
 public:
  Handle() = default;
  Handle(hid_t id, herr_t (*close)(hid_t)) : id_(id), close_(close) {}
  Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, -1)), close_(other.close_) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(id_, other.id_);
    std::swap(close_, other.close_);
    return *this;
  }
  ~Handle() {
    if (id_ >= 0) close_(id_);
  }
  operator hid_t() const { return id_; }  // NOLINT: handles are numbers to the API
  bool valid() const { return id_ >= 0; }

 private:
  hid_t id_ = -1;
  herr_t (*close_)(hid_t) = nullptr;
};

// A file in memory, opened for reading. `path` is used in messages.
class Reader {
 public:
  Reader(std::string path, std::span<const std::uint8_t> content);

  // The groups and datasets directly below a group, in the order of their names.
  struct Children {
    std::vector<std::string> groups, datasets;
  };
  Children children(const std::string& group) const;
  // Where an object lies: the same for all links to it.
  std::uint64_t address(const std::string& object) const;
  bool exists(const std::string& name) const;
  // An attribute of text or of a list of texts; Keras cuts long lists in pieces "<name>0",
  // "<name>1". Empty when there is none.
  std::vector<std::string> texts(const std::string& object, const std::string& attribute) const;
  bool has_texts(const std::string& object, const std::string& attribute) const;
  // A dataset of numbers as float32.
  Tensor tensor(const std::string& dataset, const std::string& name) const;
  // Throws the DataError of this file.
  [[noreturn]] void fail(const std::string& what) const { throw DataError(path_, what); }

 private:
  std::vector<std::string> read_texts(const Handle& attribute, const std::string& where) const;

  std::string path_;
  Handle file_;
};

// A file built in memory.
class Writer {
 public:
  Writer();
  // Groups above it are made.
  void group(const std::string& name);
  void text(const std::string& object, const std::string& attribute, const std::string& value);
  void texts(const std::string& object, const std::string& attribute,
             const std::vector<std::string>& values);
  void dataset(const std::string& name, const Shape& shape, std::span<const float> values);
  Bytes finish();

 private:
  Handle file_;
};

}  // namespace trainer::checkpoint::hdf5
