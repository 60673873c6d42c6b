#include "checkpoint/hdf5/types.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/numbers/half.h"

namespace trainer::checkpoint::hdf5 {
namespace {

// More is a damaged file, not a weight.
constexpr std::uint64_t kMaxElements = std::uint64_t{1} << 33;
constexpr int kMaxRank = 32;

// The bits of a float, as its datatype lists them.
struct FloatBits {
  std::uint16_t offset, precision;
  std::uint8_t exponent_at, exponent_bits, fraction_at, fraction_bits;
  std::uint32_t bias;
};

Datatype::Kind float_kind(const Input& input, Fields& fields, std::uint32_t bytes) {
  FloatBits bits{};
  bits.offset = fields.next<std::uint16_t>();
  bits.precision = fields.next<std::uint16_t>();
  bits.exponent_at = fields.next<std::uint8_t>();
  bits.exponent_bits = fields.next<std::uint8_t>();
  bits.fraction_at = fields.next<std::uint8_t>();
  bits.fraction_bits = fields.next<std::uint8_t>();
  bits.bias = fields.next<std::uint32_t>();
  const auto is = [&](std::uint32_t size, int exponent, int fraction) {
    return bytes == size && bits.offset == 0 && bits.precision == 8 * size &&
           bits.exponent_bits == exponent && bits.fraction_bits == fraction &&
           bits.exponent_at == fraction && bits.fraction_at == 0 &&
           bits.bias == (1u << (exponent - 1)) - 1;
  };
  if (is(2, 5, 10) || is(4, 8, 23) || is(8, 11, 52)) return Datatype::Kind::kFloat;
  if (is(2, 8, 7)) return Datatype::Kind::kBfloat;
  input.damaged("a type of floating-point numbers is none of IEEE's");
}

template <class T>
T element(const std::uint8_t* from, bool swap) {
  std::uint8_t bytes[sizeof(T)];
  std::memcpy(bytes, from, sizeof bytes);
  if (swap) std::reverse(std::begin(bytes), std::end(bytes));
  return std::bit_cast<T>(bytes);
}

template <class T, class Convert>
void convert_each(const Datatype& type, View from, float* to, const Convert& to_float) {
  for (std::size_t at = 0; at < from.size(); at += sizeof(T)) {
    *to++ = to_float(element<T>(from.data() + at, type.big_endian));
  }
}

template <class T>
void convert_plain(const Datatype& type, View from, float* to) {
  convert_each<T>(type, from, to, [](T value) { return static_cast<float>(value); });
}

void convert_integers(const Datatype& type, View from, float* to) {
  switch (type.is_signed ? -static_cast<int>(type.bytes) : static_cast<int>(type.bytes)) {
    case 1:
      return convert_plain<std::uint8_t>(type, from, to);
    case 2:
      return convert_plain<std::uint16_t>(type, from, to);
    case 4:
      return convert_plain<std::uint32_t>(type, from, to);
    case 8:
      return convert_plain<std::uint64_t>(type, from, to);
    case -1:
      return convert_plain<std::int8_t>(type, from, to);
    case -2:
      return convert_plain<std::int16_t>(type, from, to);
    case -4:
      return convert_plain<std::int32_t>(type, from, to);
    default:
      return convert_plain<std::int64_t>(type, from, to);
  }
}

}  // namespace

Datatype read_datatype(const Input& input, View message) {
  Fields fields(input, message, "a datatype");
  const unsigned head = fields.next<std::uint8_t>();
  const auto bits = fields.next<std::uint8_t>();
  fields.skip(2);
  Datatype type;
  type.bytes = fields.next<std::uint32_t>();
  if (type.bytes == 0) input.damaged("a datatype has no size");
  const unsigned version = head >> 4;
  if (version < 1 || version > 4) input.damaged("a datatype has no known version");
  switch (head & 15u) {
    case 0:
      if (!std::has_single_bit(type.bytes) || type.bytes > 8) break;
      type.kind = Datatype::Kind::kInteger;
      type.big_endian = bits & 1u;
      type.is_signed = bits & 8u;
      break;
    case 1:
      type.kind = float_kind(input, fields, type.bytes);
      type.big_endian = bits & 1u;
      break;
    case 3:
      type.kind = Datatype::Kind::kText;
      break;
    case 9:
      if ((bits & 15u) != 1 || type.bytes != 16) break;
      type.kind = Datatype::Kind::kVariableText;
      break;
    default:
      break;
  }
  return type;
}

std::optional<std::uint64_t> Dataspace::elements() const {
  if (is_null) return 0;
  std::uint64_t product = 1;
  for (const std::uint64_t extent : extents) {
    if (extent > kMaxElements) return {};
    if (__builtin_mul_overflow(product, extent, &product) || product > kMaxElements) return {};
  }
  return product;
}

Dataspace read_dataspace(const Input& input, View message) {
  Fields fields(input, message, "a dataspace");
  const auto version = fields.next<std::uint8_t>();
  const int rank = fields.next<std::uint8_t>();
  fields.skip(1);
  const auto kind = fields.next<std::uint8_t>();
  if (version < 1 || version > 2) input.damaged("a dataspace has no known version");
  if (rank > kMaxRank) input.damaged(concat("a dataspace of rank ", rank));
  if (version == 1) fields.skip(4);
  Dataspace space;
  space.is_null = version == 2 && kind == 2;
  for (int i = 0; i < rank; ++i) space.extents.push_back(fields.next<std::uint64_t>());
  return space;
}

void convert(const Datatype& type, View from, float* to) {
  if (type.kind == Datatype::Kind::kInteger) return convert_integers(type, from, to);
  if (type.kind == Datatype::Kind::kBfloat) {
    return convert_each<std::uint16_t>(type, from, to, bfloat16_to_float);
  }
  if (type.bytes == 2) return convert_each<std::uint16_t>(type, from, to, float16_to_float);
  if (type.bytes == 8) return convert_plain<double>(type, from, to);
  if (type.big_endian) return convert_plain<float>(type, from, to);
  if (!from.empty()) std::memcpy(to, from.data(), from.size());
}

}  // namespace trainer::checkpoint::hdf5
