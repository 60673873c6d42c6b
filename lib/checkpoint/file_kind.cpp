#include "checkpoint/file_kind.h"

#include <algorithm>
#include <string_view>

namespace trainer::checkpoint {

std::string describe_kind(const Path& path) {
  using namespace std::string_view_literals;
  const Bytes bytes = read_file_start(path, 512);
  const std::string_view start(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (start.empty()) return "is an empty file";
  constexpr std::pair<std::string_view, const char*> kKinds[] = {
      {"\x89HDF\r\n\x1a\n"sv, "is an HDF5 file (Keras .h5 weights)"},
      {"PK\x03\x04"sv, "is a zip archive (.npz, .keras or a PyTorch checkpoint)"},
      {"\x93NUMPY"sv, "is an NPY file"},
      {"\x1f\x8b"sv, "is a gzip file"},
      {"\x80\x02"sv, "is a Python pickle (a PyTorch checkpoint)"},
      {"\x89PNG"sv, "is a PNG image"},
      {"\xff\xd8\xff"sv, "is a JPEG image"},
      {"\0\0\x08"sv, "is an IDX file (images or labels)"},
  };
  for (const auto& [magic, text] : kKinds) {
    if (start.starts_with(magic)) return text;
  }
  const std::string extension = path.extension().string();
  if (extension == ".yaml" || extension == ".yml") return "is a YAML file (a config)";
  const bool text = std::ranges::all_of(
      bytes, [](std::uint8_t c) { return c >= 32 || c == '\n' || c == '\r' || c == '\t'; });
  if (text) return start.starts_with("{") ? "is a JSON file" : "is a text file";
  return "is a file of an unknown kind, or damaged at its start";
}

}  // namespace trainer::checkpoint
