// IDX, the format of MNIST and Fashion-MNIST: two zero bytes, element type, rank, big-endian
// dimensions, big-endian elements.
#include "data/arrays/idx.h"

#include <cstdio>
#include <utility>

#include "base/error.h"
#include "data/arrays/gzip.h"

namespace trainer::data {
namespace {

std::string format_hex(const std::uint8_t* bytes) {
  char text[16];
  std::snprintf(text, sizeof text, "%02x %02x %02x %02x", bytes[0], bytes[1], bytes[2], bytes[3]);
  return text;
}

}  // namespace

Array read_idx(const Path& path) { return parse_idx(path.string(), read_maybe_gzip(path)); }

Array parse_idx(std::string source, Buffer content) {
  Array array;
  array.source = std::move(source);
  array.buffer = std::move(content);
  const std::uint8_t* p = array.buffer.data();
  const std::size_t size = array.buffer.size();
  if (size < 4) {
    throw DataError(array.source, "is not an IDX file: contains only ", size, " bytes");
  }
  const std::optional<Element> element = find_idx_element(p[2]);
  if (p[0] != 0 || p[1] != 0 || !element || p[3] < 1 || p[3] > 8) {
    throw DataError(array.source, "is not an IDX file: starts with ", format_hex(p),
                    ", expected 00 00, an element type (08 for bytes) and the rank");
  }
  array.element = *element;
  const std::size_t rank = p[3];
  array.offset = 4 + 4 * rank;
  if (size < array.offset) throw DataError(array.source, "ends inside its header; fetch it again");
  for (std::size_t i = 0; i < rank; ++i) {
    const std::uint8_t* d = p + 4 + 4 * i;
    array.dims.push_back(std::int64_t{d[0]} << 24 | d[1] << 16 | d[2] << 8 | d[3]);
  }
  check_size(array);
  swap_bytes(array);
  return array;
}

Path find_idx(const Path& folder, const std::string& stem, const std::string& kind) {
  for (const char* dot : {"-", "."}) {
    for (const char* end : {"", ".gz"}) {
      Path path = folder / (stem + dot + kind + end);
      if (std::filesystem::exists(path)) return path;
    }
  }
  return {};
}

}  // namespace trainer::data
