// Weight files, whose first bytes decide the format.
#include "checkpoint/weights.h"

#include <span>
#include <sstream>
#include <string_view>

#include "base/error.h"
#include "base/formats/npy.h"
#include "base/formats/zip.h"
#include "base/text.h"
#include "checkpoint/elements.h"
#include "checkpoint/file_kind.h"
#include "checkpoint/keras.h"
#include "checkpoint/pytorch.h"
#include "checkpoint/safetensors.h"

namespace trainer::checkpoint {
namespace {

using namespace std::string_view_literals;

constexpr char kClasses[] = "classes";  // in metadata: one name per line

Tensor read_array(Bytes array, const std::string& name, const std::string& source,
                  Content content) {
  const NpyHeader header = read_npy_header(array, source);
  const ElementType* type = find_element_type(header.type, &ElementType::npy);
  if (type == nullptr) {
    throw DataError(source, "holds elements of type '", printable(header.type),
                    "'; weights are float32 or float64");
  }
  std::size_t elements = 1;
  for (const std::int64_t dim : header.dims) {
    if (dim < 0 || __builtin_mul_overflow(elements, dim, &elements)) {
      throw DataError(source, "has an impossible shape: the file is damaged");
    }
  }
  std::size_t bytes = 0;
  if (__builtin_mul_overflow(elements, type->bytes, &bytes) ||
      bytes != array.size() - header.offset) {
    throw DataError(source, "holds a number of elements that differs from its shape");
  }
  Tensor tensor{name, Shape(header.dims), {}, type->is_integer};
  if (content == Content::kShapes) return tensor;
  tensor.values.resize(elements);
  const std::span raw = std::span(array).subspan(header.offset);
  if (header.big_endian) swap_bytes(raw, type->bytes);
  type->convert(raw, tensor.values);
  return tensor;
}

// A .keras archive holds a .weights.h5; an .npz arrays.
std::vector<Tensor> read_archive(const Path& path, const Bytes& archive, Content content) {
  std::vector<Tensor> tensors;
  for (const ZipMember& member : zip_members(archive, path)) {
    const std::string source = path.string() + ":" + member.name;
    const bool keras = member.name == "model.weights.h5";
    if (!keras && !member.name.ends_with(".npy")) continue;
    Bytes unpacked(zip_size(archive, member, source));
    unzip(archive, member, unpacked, source);
    if (keras) return read_keras_h5(source, unpacked, nullptr, content);
    const std::string name = member.name.substr(0, member.name.size() - 4);
    tensors.push_back(read_array(std::move(unpacked), name, source, content));
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

WeightFile read_weights(const Path& path, const WeightOptions& options) {
  if (std::filesystem::is_directory(path)) throw DataError(path, "is a folder, expected a file");
  const Bytes start = read_file_start(path, 8);
  const std::string_view magic(reinterpret_cast<const char*>(start.data()), start.size());
  WeightFile result;
  const bool is_zip = magic.starts_with("PK\3\4"sv);
  if (has_old_pytorch_layout(path) || (is_zip && is_pytorch_archive(path))) {
    PyTorchFile file = read_pytorch(path, options.entry, options.content);
    return {std::move(file.tensors), {}, std::move(file.notes)};
  }
  if (!options.entry.empty()) {
    throw DataError(path, describe_kind(path) + "; model.weights_entry is for files of PyTorch");
  }
  if (magic == "\x89HDF\r\n\x1a\n"sv) {
    result.tensors = read_keras_h5(path, read_file(path), &result.classes, options.content);
  } else if (is_zip) {
    result.tensors = read_archive(path, read_file(path), options.content);
  } else if (start.size() == 8 && magic.substr(4) == "\0\0\0\0"sv) {
    TensorFile file = read_safetensors(path, options.content);
    result.tensors = std::move(file.tensors);
    result.classes = read_classes(file.metadata);
  } else {
    throw DataError(path, describe_kind(path) +
                              "; expected Keras .h5, .weights.h5 or .keras, "
                              "safetensors, npz, or a state dict of PyTorch");
  }
  for (Tensor& tensor : result.tensors) tensor.name = without_number(tensor.name);
  return result;
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
