// Weight files, whose first bytes decide the format.
#include "checkpoint/weights.h"

#include <algorithm>
#include <cstring>
#include <sstream>
#include <string_view>

#include "base/error.h"
#include "base/formats/npy.h"
#include "base/formats/zip.h"
#include "base/text.h"
#include "checkpoint/file_kind.h"
#include "checkpoint/keras.h"
#include "checkpoint/safetensors.h"

namespace trainer::checkpoint {
namespace {

using namespace std::string_view_literals;

constexpr char kClasses[] = "classes";  // in metadata: one name per line

template <class T>
void convert(const std::uint8_t* from, bool swap, std::vector<float>& to) {
  for (float& value : to) {
    std::uint8_t bytes[sizeof(T)];
    std::memcpy(bytes, from, sizeof bytes);
    if (swap) std::reverse(std::begin(bytes), std::end(bytes));
    T number;
    std::memcpy(&number, bytes, sizeof number);
    value = static_cast<float>(number);
    from += sizeof(T);
  }
}

Tensor read_array(const Bytes& content, const std::string& name, const std::string& source) {
  const NpyHeader header = read_npy_header(content, source);
  const std::size_t width = header.type == "f4" ? 4 : header.type == "f8" ? 8 : 0;
  if (width == 0) {
    throw DataError(source,
                    "holds elements of type '" + header.type + "'; weights are float32 or float64");
  }
  std::size_t elements = 1;
  for (const std::int64_t dim : header.dims) {
    if (dim < 0 || __builtin_mul_overflow(elements, dim, &elements)) {
      throw DataError(source, "has an impossible shape: the file is damaged");
    }
  }
  std::size_t bytes = 0;
  if (__builtin_mul_overflow(elements, width, &bytes) || bytes != content.size() - header.offset) {
    throw DataError(source, "holds a number of elements that differs from its shape");
  }
  Tensor tensor{name, Shape(header.dims), std::vector<float>(elements)};
  const std::uint8_t* from = content.data() + header.offset;
  if (width == 4) convert<float>(from, header.big_endian, tensor.values);
  if (width == 8) convert<double>(from, header.big_endian, tensor.values);
  return tensor;
}

// A .keras archive holds a .weights.h5; an .npz arrays.
std::vector<Tensor> read_archive(const Path& path, const Bytes& content) {
  std::vector<Tensor> tensors;
  for (const ZipMember& member : zip_members(content, path)) {
    const std::string source = path.string() + ":" + member.name;
    const bool keras = member.name == "model.weights.h5";
    if (!keras && !member.name.ends_with(".npy")) continue;
    Bytes unpacked(zip_size(content, member, source));
    unzip(content, member, unpacked, source);
    if (keras) return read_keras_h5(source, unpacked);
    tensors.push_back(read_array(unpacked, member.name.substr(0, member.name.size() - 4), source));
  }
  if (tensors.empty()) {
    throw DataError(path,
                    "is a zip archive with neither model.weights.h5 (.keras) nor arrays (.npz)");
  }
  return tensors;
}

std::string without_number(std::string name) {
  if (name.ends_with(":0")) name.resize(name.size() - 2);
  return name;
}

}  // namespace

std::vector<Tensor> read_weights(const Path& path, std::vector<std::string>* classes) {
  if (std::filesystem::is_directory(path)) throw DataError(path, "is a folder, expected a file");
  const Bytes start = read_file_start(path, 8);
  const std::string_view magic(reinterpret_cast<const char*>(start.data()), start.size());
  std::vector<Tensor> tensors;
  if (classes != nullptr) classes->clear();
  if (magic == "\x89HDF\r\n\x1a\n"sv) {
    tensors = read_keras_h5(path, read_file(path), classes);
  } else if (magic.starts_with("PK\3\4"sv)) {
    tensors = read_archive(path, read_file(path));
  } else if (start.size() == 8 && magic.substr(4) == "\0\0\0\0"sv) {
    TensorFile file = read_safetensors(path);
    tensors = std::move(file.tensors);
    if (classes != nullptr) *classes = read_classes(file.metadata);
  } else {
    throw DataError(path, describe_kind(path) +
                              "; expected Keras .h5, .weights.h5 or .keras, safetensors or npz");
  }
  for (Tensor& tensor : tensors) tensor.name = without_number(tensor.name);
  return tensors;
}

void add_classes(const std::vector<std::string>& classes, Metadata& metadata) {
  std::string& text = metadata[kClasses];
  for (const std::string& name : classes) text += name + "\n";
}

std::vector<std::string> read_classes(const Metadata& metadata) {
  std::vector<std::string> classes;
  const auto found = metadata.find(kClasses);
  if (found == metadata.end()) return classes;
  std::istringstream lines(found->second);
  for (std::string line; std::getline(lines, line);) classes.push_back(printable(line));
  return classes;
}

}  // namespace trainer::checkpoint
