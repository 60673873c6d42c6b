// Weight files, whose first bytes decide the format.
#include "checkpoint/weights.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <sstream>
#include <string_view>

#include "base/error.h"
#include "base/formats/npy.h"
#include "base/formats/zip.h"
#include "base/process/shell.h"
#include "base/text.h"
#include "checkpoint/file_kind.h"
#include "checkpoint/keras.h"
#include "checkpoint/safetensors.h"

namespace trainer::checkpoint {
namespace {

using namespace std::string_view_literals;

constexpr char kClasses[] = "classes";  // in metadata: one name per line

// The bytes of the elements of an array.
struct Elements {
  std::span<const std::uint8_t> bytes;
  bool are_big_endian = false;
};

template <class T>
void convert_array(Elements elements, std::vector<float>& to) {
  const std::uint8_t* from = elements.bytes.data();
  for (float& value : to) {
    std::uint8_t bytes[sizeof(T)];
    std::memcpy(bytes, from, sizeof bytes);
    if (elements.are_big_endian) std::reverse(std::begin(bytes), std::end(bytes));
    T number;
    std::memcpy(&number, bytes, sizeof number);
    value = static_cast<float>(number);
    from += sizeof(T);
  }
}

// A type of elements that can be read. `name` is that of NpyHeader.
struct ArrayType {
  std::string_view name;
  std::size_t bytes;
  void (*convert)(Elements elements, std::vector<float>& to);
};
constexpr ArrayType kArrayTypes[] = {
    {"f4", 4, convert_array<float>},         {"f8", 8, convert_array<double>},
    {"i8", 8, convert_array<std::int64_t>},  {"i4", 4, convert_array<std::int32_t>},
    {"i2", 2, convert_array<std::int16_t>},  {"i1", 1, convert_array<std::int8_t>},
    {"u8", 8, convert_array<std::uint64_t>}, {"u4", 4, convert_array<std::uint32_t>},
    {"u2", 2, convert_array<std::uint16_t>}, {"u1", 1, convert_array<std::uint8_t>},
    {"b1", 1, convert_array<std::uint8_t>}};

Tensor read_array(const Bytes& array, const std::string& name, const std::string& source,
                  Content content) {
  const NpyHeader header = read_npy_header(array, source);
  const auto* type = std::ranges::find(kArrayTypes, header.type, &ArrayType::name);
  if (type == std::end(kArrayTypes)) {
    throw DataError(source, concat("holds elements of type '", printable(header.type),
                                   "'; weights are float32 or float64"));
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
  Tensor tensor{name, Shape(header.dims), {}, !header.type.starts_with('f')};
  if (content == Content::kShapes) return tensor;
  tensor.values.resize(elements);
  type->convert({std::span(array).subspan(header.offset), header.big_endian}, tensor.values);
  return tensor;
}

[[noreturn]] void reject_pickle(const Path& path) {
  throw DataError(path,
                  concat("is a PyTorch pickle file, which is not read, because it can run code. "
                         "This saves its state dict in a form that is read:\n  ",
                         conversion_command(path)),
                  Controls::kLines);
}

// A .keras archive holds a .weights.h5; an .npz arrays.
std::vector<Tensor> read_archive(const Path& path, const Bytes& archive, Content content) {
  std::vector<Tensor> tensors;
  for (const ZipMember& member : zip_members(archive, path)) {
    if (member.name.ends_with("/data.pkl")) reject_pickle(path);
    const std::string source = path.string() + ":" + member.name;
    const bool keras = member.name == "model.weights.h5";
    if (!keras && !member.name.ends_with(".npy")) continue;
    Bytes unpacked(zip_size(archive, member, source));
    unzip(archive, member, unpacked, source);
    if (keras) return read_keras_h5(source, unpacked, nullptr, content);
    const std::string name = member.name.substr(0, member.name.size() - 4);
    tensors.push_back(read_array(unpacked, name, source, content));
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

std::vector<Tensor> read_weights(const Path& path, std::vector<std::string>* classes,
                                 Content content) {
  if (std::filesystem::is_directory(path)) throw DataError(path, "is a folder, expected a file");
  const Bytes start = read_file_start(path, 8);
  const std::string_view magic(reinterpret_cast<const char*>(start.data()), start.size());
  std::vector<Tensor> tensors;
  if (classes != nullptr) classes->clear();
  if (magic == "\x89HDF\r\n\x1a\n"sv) {
    tensors = read_keras_h5(path, read_file(path), classes, content);
  } else if (magic.starts_with("PK\3\4"sv)) {
    tensors = read_archive(path, read_file(path), content);
  } else if (magic.starts_with("\x80\2"sv)) {
    reject_pickle(path);  // as torch.save() wrote them before version 1.6
  } else if (start.size() == 8 && magic.substr(4) == "\0\0\0\0"sv) {
    TensorFile file = read_safetensors(path, content);
    tensors = std::move(file.tensors);
    if (classes != nullptr) *classes = read_classes(file.metadata);
  } else {
    throw DataError(path, describe_kind(path) +
                              "; expected Keras .h5, .weights.h5 or .keras, safetensors or npz");
  }
  for (Tensor& tensor : tensors) tensor.name = without_number(tensor.name);
  return tensors;
}

std::string conversion_command(const Path& pickle) {
  return concat(
      "python3 -c \"import sys, torch, safetensors.torch as s; f = torch.load(sys.argv[1], "
      "map_location='cpu', weights_only=True); f = f.get('state_dict', f.get('model', f)); "
      "s.save_file({k: v.clone().contiguous() for k, v in f.items()}, sys.argv[2])\" ",
      shell_word(pickle.string()), ' ',
      shell_word(Path(pickle).replace_extension(".safetensors").string()));
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
