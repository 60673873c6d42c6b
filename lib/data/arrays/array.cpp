#include "data/arrays/array.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "base/error.h"

namespace trainer::data {
namespace {

template <class T>
double load(const std::uint8_t* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return static_cast<double>(value);
}

constexpr std::size_t kHugePage = std::size_t{1} << 21;

}  // namespace

Buffer::Buffer(std::size_t size) : size_(size) {
  const std::size_t alignment = size < 2 * kHugePage ? 64 : kHugePage;
  const std::size_t rounded = (std::max<std::size_t>(size, 1) + alignment - 1) & ~(alignment - 1);
  memory_.reset(static_cast<std::uint8_t*>(std::aligned_alloc(alignment, rounded)));
  if (memory_ == nullptr) throw std::bad_alloc();
  if (alignment == kHugePage) ::madvise(memory_.get(), rounded, MADV_HUGEPAGE);  // may fail
}

std::size_t size_of(Element element) {
  switch (element) {
    case Element::kBool:
    case Element::kU8:
    case Element::kI8:
      return 1;
    case Element::kU16:
    case Element::kI16:
      return 2;
    case Element::kU32:
    case Element::kI32:
    case Element::kF32:
      return 4;
    case Element::kU64:
    case Element::kI64:
    case Element::kF64:
      return 8;
  }
  return 0;
}

bool is_float(Element element) { return element == Element::kF32 || element == Element::kF64; }

std::int64_t Array::count() const {
  std::int64_t n = 1;
  for (const std::int64_t dim : dims) n *= dim;
  return n;
}

double Array::at(std::int64_t i) const {
  const std::uint8_t* p = bytes() + static_cast<std::size_t>(i) * size_of(element);
  switch (element) {
    case Element::kBool:
      return *p == 0 ? 0 : 1;
    case Element::kU8:
      return *p;
    case Element::kI8:
      return load<std::int8_t>(p);
    case Element::kU16:
      return load<std::uint16_t>(p);
    case Element::kI16:
      return load<std::int16_t>(p);
    case Element::kU32:
      return load<std::uint32_t>(p);
    case Element::kI32:
      return load<std::int32_t>(p);
    case Element::kU64:
      return load<std::uint64_t>(p);
    case Element::kI64:
      return load<std::int64_t>(p);
    case Element::kF32:
      return load<float>(p);
    case Element::kF64:
      return load<double>(p);
  }
  return 0;
}

void check_size(const Array& array) {
  std::string product;
  bool is_empty = false;
  unsigned __int128 expected = size_of(array.element);
  for (const std::int64_t dim : array.dims) {
    if (dim < 0) throw DataError(array.source, "has a negative dimension; the file is damaged");
    is_empty = is_empty || dim == 0;
    expected *= static_cast<std::uint64_t>(dim);
    if (expected > (std::uint64_t{1} << 62)) expected = std::uint64_t{1} << 62;
    product += (product.empty() ? "" : " x ") + std::to_string(dim);
  }
  // With a dimension of 0, the other dimensions are not bounded by the size of the file.
  if (is_empty) throw DataError(array.source, "contains no elements: its header gives ", product);
  const std::size_t held = array.buffer.size() - array.offset;
  if (expected == held) return;
  throw DataError(array.source, "its header gives ", product, " elements of ",
                  size_of(array.element), " bytes, but ", held, " bytes follow (expected ",
                  static_cast<std::uint64_t>(expected), "): the file is ",
                  held < expected ? "truncated; fetch it again" : "damaged");
}

void swap_bytes(Array& array) {
  const std::size_t width = size_of(array.element);
  if (width == 1) return;
  std::uint8_t* end = array.buffer.data() + array.buffer.size();
  for (std::uint8_t* p = array.buffer.data() + array.offset; p < end; p += width) {
    std::reverse(p, p + width);
  }
}

}  // namespace trainer::data
