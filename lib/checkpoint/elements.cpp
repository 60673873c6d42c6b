#include "checkpoint/elements.h"

#include <algorithm>
#include <cstring>

#include "base/numbers/half.h"

namespace trainer::checkpoint {
namespace {

template <class T>
float to_float(T number) {
  return static_cast<float>(number);
}

template <class T, auto kToFloat = to_float<T>>
void convert_elements(std::span<const std::uint8_t> from, std::span<float> to) {
  for (std::size_t i = 0; i < to.size(); ++i) {
    T element;
    std::memcpy(&element, from.data() + i * sizeof element, sizeof element);
    to[i] = kToFloat(element);
  }
}

constexpr ElementType kTypes[] = {
    {"F32", "f4", "FloatStorage", 4, false, convert_elements<float>},
    {"F64", "f8", "DoubleStorage", 8, false, convert_elements<double>},
    {"F16", "f2", "HalfStorage", 2, false, convert_elements<std::uint16_t, float16_to_float>},
    {"BF16", "", "BFloat16Storage", 2, false, convert_elements<std::uint16_t, bfloat16_to_float>},
    {"I64", "i8", "LongStorage", 8, true, convert_elements<std::int64_t>},
    {"I32", "i4", "IntStorage", 4, true, convert_elements<std::int32_t>},
    {"I16", "i2", "ShortStorage", 2, true, convert_elements<std::int16_t>},
    {"I8", "i1", "CharStorage", 1, true, convert_elements<std::int8_t>},
    {"U64", "u8", "", 8, true, convert_elements<std::uint64_t>},
    {"U32", "u4", "", 4, true, convert_elements<std::uint32_t>},
    {"U16", "u2", "", 2, true, convert_elements<std::uint16_t>},
    {"U8", "u1", "ByteStorage", 1, true, convert_elements<std::uint8_t>},
    {"BOOL", "b1", "BoolStorage", 1, true, convert_elements<std::uint8_t>},
};

}  // namespace

const ElementType* find_element_type(std::string_view name, std::string_view ElementType::*format) {
  const auto* found = std::ranges::find(kTypes, name, format);
  return found == std::end(kTypes) || name.empty() ? nullptr : found;
}

void swap_bytes(std::span<std::uint8_t> elements, std::uint64_t bytes_per_element) {
  for (std::size_t at = 0; at < elements.size(); at += bytes_per_element) {
    std::ranges::reverse(elements.subspan(at, bytes_per_element));
  }
}

}  // namespace trainer::checkpoint
