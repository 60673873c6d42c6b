// Arrays as files hold them: what IDX, NPY and NPZ have in common.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace trainer::data {

using Path = std::filesystem::path;

// Bytes that were not cleared first, since they are about to be overwritten; big ones in huge
// pages, which makes them faster to fill and to read at random.
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

enum class Element { kU8, kI8, kU16, kI16, kU32, kI32, kU64, kI64, kF32, kF64 };
std::size_t size_of(Element element);
bool is_float(Element element);

struct Array {
  std::string source;  // the file, or file:array, for messages
  Element element = Element::kU8;
  std::vector<std::int64_t> dims;
  Buffer buffer;
  std::size_t offset = 0;  // where the elements start; native byte order, C order, packed

  const std::uint8_t* bytes() const { return buffer.data() + offset; }
  std::int64_t count() const;  // elements
  double at(std::int64_t i) const;
};

// Checks that the bytes after `offset` are exactly the elements of `dims`, at least one, so that
// their number is no larger than the file. Throws DataError.
void check_size(const Array& array);
// Reverses the bytes of each element.
void swap_bytes(Array& array);

}  // namespace trainer::data
