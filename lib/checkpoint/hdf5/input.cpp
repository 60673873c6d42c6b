#include "checkpoint/hdf5/input.h"

#include <algorithm>
#include <bit>
#include <string_view>

namespace trainer::checkpoint::hdf5 {
namespace {

// Longer names are damage: Keras's have some tens of letters.
constexpr std::size_t kMaxTextBytes = 4096;
// What a std::string takes besides its letters.
constexpr std::size_t kTextOverhead = sizeof(std::string);

}  // namespace

View Input::claim(std::uint64_t address, std::uint64_t size, const char* what) {
  if (address > content_.size() || size > content_.size() - address) {
    damaged(concat(what, " ends beyond the file"));
  }
  if (size > unclaimed_) damaged(concat(what, " overlaps with other parts of the file"));
  unclaimed_ -= size;
  return content_.subspan(address, size);
}

View Input::peek(std::uint64_t address, const char* what) const {
  if (address > content_.size() || content_.size() - address < 4) {
    damaged(concat(what, " ends beyond the file"));
  }
  return content_.subspan(address, 4);
}

std::string_view Input::text_at(View bytes, std::uint64_t offset, const char* what) const {
  if (offset >= bytes.size()) damaged(concat(what, " lies outside its heap"));
  const std::size_t most = std::min<std::size_t>(bytes.size() - offset, kMaxTextBytes + 1);
  const auto* start = reinterpret_cast<const char*>(bytes.data()) + offset;
  const std::size_t length = strnlen(start, most);
  if (length == most) damaged(concat(what, " has no end"));
  return {start, length};
}

std::string Input::copied(std::string_view text) {
  if (text.size() > kMaxTextBytes) {
    damaged(concat("a text of ", text.size(), " bytes is too long for a name"));
  }
  const std::uint64_t size = text.size() + kTextOverhead;
  if (size > text_left_) damaged("its texts are longer than the file");
  text_left_ -= size;
  return std::string(text);
}

void Input::damaged(const std::string& what) const {
  fail("is a damaged or truncated HDF5 file: " + what);
}

void Input::unsupported(const std::string& what) const {
  fail("holds " + what +
       ", which Keras does not write and trainer does not read; save the weights again with "
       "Keras's or h5py's defaults");
}

std::uint64_t Fields::number(std::size_t width) {
  const View field = take(width);
  std::uint64_t value = 0;
  std::memcpy(&value, field.data(), std::min(width, sizeof value));
  return value;
}

View Fields::take(std::uint64_t size) {
  if (size > left()) input_.damaged(concat(what_, " is too short"));
  const View field = bytes_.subspan(at_, size);
  at_ += size;
  return field;
}

void Fields::expect(std::string_view text) {
  const View field = take(text.size());
  if (std::memcmp(field.data(), text.data(), text.size()) != 0) {
    input_.damaged(concat(what_, " is not at its address"));
  }
}

std::uint32_t lookup3(View bytes) {
  const auto start = 0xdeadbeefu + static_cast<std::uint32_t>(bytes.size());
  std::uint32_t a = start, b = start, c = start;
  const auto add = [&](View block) {
    std::uint32_t words[3] = {};
    std::memcpy(words, block.data(), block.size());
    a += words[0], b += words[1], c += words[2];
  };
  for (; bytes.size() > 12; bytes = bytes.subspan(12)) {
    add(bytes.first(12));
    a -= c, a ^= std::rotl(c, 4), c += b;
    b -= a, b ^= std::rotl(a, 6), a += c;
    c -= b, c ^= std::rotl(b, 8), b += a;
    a -= c, a ^= std::rotl(c, 16), c += b;
    b -= a, b ^= std::rotl(a, 19), a += c;
    c -= b, c ^= std::rotl(b, 4), b += a;
  }
  if (bytes.empty()) return c;
  add(bytes);
  c ^= b, c -= std::rotl(b, 14);
  a ^= c, a -= std::rotl(c, 11);
  b ^= a, b -= std::rotl(a, 25);
  c ^= b, c -= std::rotl(b, 16);
  a ^= c, a -= std::rotl(c, 4);
  b ^= a, b -= std::rotl(a, 14);
  c ^= b, c -= std::rotl(b, 24);
  return c;
}

}  // namespace trainer::checkpoint::hdf5
