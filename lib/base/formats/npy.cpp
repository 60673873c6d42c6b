#include "base/formats/npy.h"

#include <charconv>
#include <cstring>
#include <string_view>

#include "base/error.h"

namespace trainer {
namespace {

// Returns the text after `'key':` in an NPY header, which is a Python dict literal in one line.
std::string_view find_value(std::string_view header, std::string_view key,
                            const std::string& source) {
  const std::size_t at = header.find(concat("'", key, "'"));
  const std::size_t colon = at == std::string_view::npos ? at : header.find(':', at);
  if (colon == std::string_view::npos) {
    throw DataError(source, "is a damaged NPY file: its header has no '", key, "'");
  }
  const std::size_t start = header.find_first_not_of(' ', colon + 1);
  return start == std::string_view::npos ? std::string_view{} : header.substr(start);
}

std::vector<std::int64_t> parse_shape(std::string_view text, const std::string& source) {
  std::vector<std::int64_t> dims;
  const std::size_t close = text.find(')');
  if (text.empty() || text[0] != '(' || close == std::string_view::npos) {
    throw DataError(source, "is a damaged NPY file: cannot read its shape");
  }
  const char* p = text.data() + 1;
  const char* end = text.data() + close;
  while (p < end) {
    std::int64_t dim = 0;
    const auto [next, error] = std::from_chars(p, end, dim);
    if (error == std::errc()) {
      dims.push_back(dim);
      p = next;
    } else {
      ++p;
    }
  }
  return dims;
}

}  // namespace

NpyHeader read_npy_header(std::span<const std::uint8_t> content, const std::string& source) {
  const std::uint8_t* p = content.data();
  if (content.size() < 12 || std::memcmp(p, "\x93NUMPY", 6) != 0) {
    throw DataError(source, "is not an NPY file: it does not start with \\x93NUMPY");
  }
  const bool long_header = p[6] >= 2;
  const std::size_t header_at = long_header ? 12 : 10;
  std::size_t header_size = p[8] | p[9] << 8;
  if (long_header) header_size |= std::size_t{p[10]} << 16 | std::size_t{p[11]} << 24;
  NpyHeader result;
  result.offset = header_at + header_size;
  if (result.offset > content.size()) {
    throw DataError(source, "ends inside its header; fetch it again");
  }
  const std::string_view header(reinterpret_cast<const char*>(p) + header_at, header_size);
  const std::string_view descr = find_value(header, "descr", source);
  if (descr.starts_with("'|O'")) {
    throw DataError(source,
                    "contains Python objects (pickled), which are not read; save an array of "
                    "numbers (of labels: numpy.unique(y, return_inverse=True)[1])");
  }
  if (descr.size() < 4 || descr[0] != '\'' || descr.find('\'', 1) != 4) {
    throw DataError(source, "holds structured elements or an unknown type: ", descr.substr(0, 20));
  }
  result.type = descr.substr(2, 2);
  result.big_endian = descr[1] == '>';
  result.dims = parse_shape(find_value(header, "shape", source), source);
  if (!find_value(header, "fortran_order", source).starts_with("False") && result.dims.size() > 1) {
    throw DataError(source, "is in Fortran order; save numpy.ascontiguousarray(a) instead");
  }
  return result;
}

std::string npy_header(const std::string& type, const std::vector<std::int64_t>& dims) {
  constexpr std::size_t kPrefix = 10, kAlignment = 64;
  std::string shape;
  for (const std::int64_t dim : dims) shape += concat(dim, ", ");
  std::string text =
      concat("{'descr': '", type, "', 'fortran_order': False, 'shape': (", shape, "), }");
  text.append((kAlignment - (kPrefix + text.size() + 1) % kAlignment) % kAlignment, ' ');
  text += '\n';
  const std::size_t size = text.size();
  return std::string("\x93NUMPY\x01", 7) + '\0' + static_cast<char>(size & 255) +
         static_cast<char>(size >> 8) + text;
}

}  // namespace trainer
