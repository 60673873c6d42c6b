#include "data/arrays/array.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <iterator>
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

double load_bool(const std::uint8_t* at) { return *at == 0 ? 0 : 1; }

// The types of elements, in the order of Element.
struct ElementType {
  std::size_t bytes;
  double (*load)(const std::uint8_t* at);
  std::string_view npy;
  std::uint8_t idx;  // 0: IDX files do not have the type
};
constexpr ElementType kTypes[] = {{1, load_bool, "b1", 0},
                                  {1, load<std::uint8_t>, "u1", 0x08},
                                  {1, load<std::int8_t>, "i1", 0x09},
                                  {2, load<std::uint16_t>, "u2", 0},
                                  {2, load<std::int16_t>, "i2", 0x0B},
                                  {4, load<std::uint32_t>, "u4", 0},
                                  {4, load<std::int32_t>, "i4", 0x0C},
                                  {8, load<std::uint64_t>, "u8", 0},
                                  {8, load<std::int64_t>, "i8", 0},
                                  {4, load<float>, "f4", 0x0D},
                                  {8, load<double>, "f8", 0x0E}};

const ElementType& type_of(Element element) { return kTypes[static_cast<std::size_t>(element)]; }

// Returns the element whose type has this value of the member.
template <class T>
std::optional<Element> find_element(T ElementType::*member, const T& value) {
  const auto* found = std::ranges::find(kTypes, value, member);
  if (found == std::end(kTypes)) return std::nullopt;
  return static_cast<Element>(found - kTypes);
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

std::size_t size_of(Element element) { return type_of(element).bytes; }

std::optional<Element> find_npy_element(std::string_view name) {
  return find_element(&ElementType::npy, name);
}

std::optional<Element> find_idx_element(std::uint8_t code) {
  return code == 0 ? std::nullopt : find_element(&ElementType::idx, code);
}

bool is_float(Element element) { return element == Element::kF32 || element == Element::kF64; }

std::int64_t Array::count() const {
  std::int64_t n = 1;
  for (const std::int64_t dim : dims) n *= dim;
  return n;
}

double Array::at(std::int64_t i) const {
  const ElementType& type = type_of(element);
  return type.load(bytes() + static_cast<std::size_t>(i) * type.bytes);
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
