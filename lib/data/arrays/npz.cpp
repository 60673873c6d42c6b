// An .npz file is a zip archive of .npy members.
#include "data/arrays/npz.h"

#include <cstring>

#include "base/error.h"
#include "base/files/files.h"
#include "base/formats/npy.h"
#include "base/formats/zip.h"
#include "data/arrays/gzip.h"

namespace trainer::data {
namespace {

Array parse_npy(Buffer content, const std::string& source) {
  const NpyHeader header = read_npy_header(content.span(), source);
  const std::optional<Element> element = find_npy_element(header.type);
  if (!element) {
    throw DataError(source, "contains elements of type '", header.type,
                    "'; expected integers, float32 or float64");
  }
  Array array;
  array.source = source;
  array.buffer = std::move(content);
  array.element = *element;
  array.dims = header.dims;
  array.offset = header.offset;
  check_size(array);
  if (header.big_endian) swap_bytes(array);
  return array;
}

std::string array_name(const ZipMember& member) {
  const bool npy = member.name.ends_with(".npy");
  return npy ? member.name.substr(0, member.name.size() - 4) : member.name;
}

}  // namespace

Array read_npy(const Path& path) {
  if (is_zip(path)) {
    throw DataError(path, "is an .npz archive, expected an .npy file; give it as `path`");
  }
  return parse_npy(read_maybe_gzip(path), path.string());
}

bool is_zip(const Path& path) {
  const Bytes start = read_file_start(path, 4);
  return start.size() == 4 && std::memcmp(start.data(), "PK\3\4", 4) == 0;
}

std::vector<std::string> npz_names(const Path& path) {
  const Buffer file = read_maybe_gzip(path);
  const std::string source = path.string();
  std::vector<std::string> names;
  for (const ZipMember& member : zip_members(file.span(), source)) {
    names.push_back(array_name(member));
  }
  return names;
}

Array read_npz(const Path& path, const std::string& name) {
  const Buffer file = read_maybe_gzip(path);
  const std::string source = path.string();
  std::string held;
  for (const ZipMember& member : zip_members(file.span(), source)) {
    const std::string whole = source + ":" + name;
    if (array_name(member) == name) {
      Buffer content(zip_size(file.span(), member, whole));
      unzip(file.span(), member, {content.data(), content.size()}, whole);
      return parse_npy(std::move(content), whole);
    }
    held += (held.empty() ? "" : ", ") + array_name(member);
  }
  throw DataError(source, "does not contain the array '", name, "', but ", held);
}

}  // namespace trainer::data
