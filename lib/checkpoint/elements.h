// The types of the elements of weight files, and their conversion to float.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace trainer::checkpoint {

struct ElementType {
  // The names of the type; "" where the format does not have it.
  std::string_view safetensors, npy, pytorch;
  std::uint64_t bytes;  // per element
  bool is_integer;      // bool is an integer
  // Converts little-endian elements. Both spans have the same number of elements.
  void (*convert)(std::span<const std::uint8_t> from, std::span<float> to);
};

// Returns the type of a name; null for a type that cannot be read. `format` is a member of
// ElementType: find_element_type("F32", &ElementType::safetensors).
const ElementType* find_element_type(std::string_view name, std::string_view ElementType::*format);

// Reverses the bytes of each element, of big-endian files.
void swap_bytes(std::span<std::uint8_t> elements, std::uint64_t bytes_per_element);

}  // namespace trainer::checkpoint
