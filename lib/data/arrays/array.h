// Arrays of numbers, as IDX, NPY and NPZ files contain them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.h"
#include "config/sections/data.h"
#include "data/dataset.h"

namespace trainer::data {

using Path = std::filesystem::path;

// Uninitialised bytes. Large buffers lie in huge pages, which are faster to fill and to read at
// random.
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(std::size_t size);
  std::uint8_t* data() { return memory_.get(); }
  const std::uint8_t* data() const { return memory_.get(); }
  std::size_t size() const { return size_; }
  void shrink(std::size_t size) { size_ = size; }
  std::span<const std::uint8_t> span() const { return {memory_.get(), size_}; }

 private:
  struct Free {
    void operator()(std::uint8_t* p) const { std::free(p); }
  };
  std::unique_ptr<std::uint8_t, Free> memory_;
  std::size_t size_ = 0;
};

enum class Element { kBool, kU8, kI8, kU16, kI16, kU32, kI32, kU64, kI64, kF32, kF64 };
std::size_t size_of(Element element);
bool is_float(Element element);
// These return the element of a name in NPY files ("u1") and of a code in IDX files; nothing for
// one that cannot be read.
std::optional<Element> find_npy_element(std::string_view name);
std::optional<Element> find_idx_element(std::uint8_t code);

struct Array {
  std::string source;  // the file, or file:array, for messages
  Element element = Element::kU8;
  std::vector<std::int64_t> dims;
  Buffer buffer;
  std::size_t offset = 0;  // the place of the first element; native byte order and C order

  const std::uint8_t* bytes() const { return buffer.data() + offset; }
  // Returns the number of elements.
  std::int64_t count() const;
  // Returns element `i` as a double.
  double at(std::int64_t i) const;
};

// Throws DataError unless the bytes after `offset` are exactly the elements of `dims`, at least
// one, so that the dimensions are bounded by the size of the file.
void check_size(const Array& array);
// Reverses the bytes of each element.
void swap_bytes(Array& array);

}  // namespace trainer::data
