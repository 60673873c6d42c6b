// The safetensors layout: u64 header length, JSON header, tensors packed one after another.
#include "checkpoint/safetensors.h"

#include <algorithm>
#include <bit>
#include <fstream>
#include <list>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "checkpoint/elements.h"
#include "checkpoint/file_kind.h"

namespace trainer::checkpoint {
namespace {

static_assert(std::endian::native == std::endian::little, "tensors are written as they lie");

// Sorted by key, so that a header of many keys is read in n log n steps. An ordered_json compares
// each key with all before it.
using Json = nlohmann::json;
// Keeps the order of the tensors in a header that is written, without a look for equal keys.
using OrderedJson = nlohmann::ordered_json;

// The reference implementation's limit: more is a damaged length or an attack.
constexpr std::uint64_t kMaxHeader = 100'000'000;
// The tensors of a header: ten times as many as any known model has.
constexpr std::size_t kMaxTensors = 100'000;

template <class Number>
std::span<const std::uint8_t> view_bytes(const std::vector<Number>& values) {
  return {reinterpret_cast<const std::uint8_t*>(values.data()), values.size() * sizeof(Number)};
}

// Version 1 had no checksum of the header.
constexpr const char* kVersion = "2";

// Computes the checksum of a header whose own checksum is "". Keys are sorted, so that the order of
// the writer does not matter.
std::string compute_checksum(Json header) {
  header["__metadata__"]["header_sha256"] = "";
  return sha256(header.dump());
}

std::string to_utf8(const std::string& text) {
  constexpr auto kReplace = Json::error_handler_t::replace;
  return Json::parse(Json(text).dump(-1, ' ', false, kReplace)).get<std::string>();
}

// `content` has the bytes of each tensor.
std::string make_header(const std::vector<Tensor>& tensors, const Pieces& content,
                        const Metadata& metadata) {
  Sha256 sha;
  for (const auto& bytes : content) sha.update(bytes);
  OrderedJson texts = OrderedJson::object();
  for (const auto& [key, value] : metadata) texts[key] = to_utf8(value);
  texts["sha256"] = sha.hex();
  texts["trainer"] = kVersion;

  OrderedJson header = {{"__metadata__", std::move(texts)}};
  auto& entries = header.get_ref<OrderedJson::object_t&>();
  std::set<std::string> names;
  std::uint64_t offset = 0;
  if (tensors.size() > kMaxTensors) {
    throw ConfigError({}, tensors.size(), " tensors are more than the ", kMaxTensors,
                      " that a file can have; use a smaller model");
  }
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& tensor = tensors[i];
    if (static_cast<std::size_t>(tensor.shape.elements()) != tensor.values.size()) {
      throw std::logic_error(concat("tensor ", tensor.name, ": ", tensor.values.size(),
                                    " values for the shape ", to_string(tensor.shape)));
    }
    if (!names.insert(tensor.name).second) {
      throw std::logic_error("two tensors are called " + tensor.name);
    }
    const std::uint64_t end = offset + content[i].size();
    OrderedJson entry = {{"dtype", tensor.is_integer ? "I64" : "F32"},
                         {"shape", tensor.shape.dims()},
                         {"data_offsets", {offset, end}}};
    entries.emplace_back(tensor.name, std::move(entry));
    offset = end;
  }
  header["__metadata__"]["header_sha256"] = compute_checksum(Json::parse(header.dump()));
  std::string text = header.dump();
  // Padded with spaces so that the tensors start at a multiple of eight.
  text.append((8 - text.size() % 8) % 8, ' ');
  return text;
}

// Reads a header before it is parsed and stops at the first problem. (A callback of parse() could
// check the same, but would look at all tensors after each of them.)
class HeaderCheck final : public nlohmann::json_sax<Json> {
 public:
  // Returns "" if the header is not valid JSON.
  const std::string& problem() const { return problem_; }

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override { return enter(); }
  bool start_array(std::size_t) override { return enter(); }
  bool end_object() override { return leave(); }
  bool end_array() override { return leave(); }
  bool key(string_t& name) override {
    if (depth_ != 1) return true;
    // A key that comes twice would silently hide a tensor.
    if (!keys_.insert(name).second) return stop("its header names the tensor " + name + " twice");
    if (keys_.size() <= kMaxTensors + 1) return true;  // and the metadata
    return stop(
        concat("its header names more than ", kMaxTensors, " tensors: the file is damaged"));
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception&) override {
    return false;
  }

 private:
  static constexpr int kMaxDepth = 9;

  bool enter() {
    if (++depth_ <= kMaxDepth) return true;
    return stop("its header is nested too deeply: the file is damaged");
  }
  bool leave() {
    --depth_;
    return true;
  }
  bool stop(std::string problem) {
    problem_ = std::move(problem);
    return false;
  }

  int depth_ = 0;
  std::set<std::string> keys_;
  std::string problem_;
};

// A tensor's place according to the header.
struct Entry {
  std::string name;
  const ElementType* type = nullptr;
  Shape shape;
  std::uint64_t begin = 0, end = 0;
};

class File {
 public:
  explicit File(const Path& path) : path_(path) {
    check_regular_file(path);
    in_.open(path, std::ios::binary);
    std::error_code error;
    size_ = std::filesystem::file_size(path, error);
    if (error) throw DataError(path, "cannot open: " + error.message());
    if (!in_) throw DataError(path, "cannot open");
  }

  TensorFile read(Content content) {
    const Json header = read_header();
    TensorFile file;
    read_metadata(header, file.metadata);
    check_header(header, file.metadata);
    const std::vector<Entry> entries = read_entries(header);
    if (content == Content::kShapes) {
      for (const Entry& entry : entries) file.tensors.push_back(make_tensor(entry));
      return file;
    }
    Sha256 sha;
    Bytes raw;
    for (const Entry& entry : entries) file.tensors.push_back(read_tensor(entry, raw, sha));
    const auto expected = file.metadata.find("sha256");
    if (expected != file.metadata.end() && sha.hex() != expected->second) {
      fail("the checksum of its tensors does not match: the file is damaged");
    }
    return file;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const { throw DataError(path_, what); }

  void read_bytes(void* to, std::uint64_t size) {
    in_.read(static_cast<char*>(to), static_cast<std::streamsize>(size));
    if (static_cast<std::uint64_t>(in_.gcount()) != size) fail("ends early; the file is truncated");
  }

  Json read_header() {
    std::uint64_t length = 0;
    if (size_ < 10) fail(describe_kind(path_) + "; expected a safetensors file");
    read_bytes(&length, sizeof length);
    const int first = in_.peek();
    if (first != '{') fail(describe_kind(path_) + "; expected a safetensors file");
    if (length > kMaxHeader) {
      fail(concat("its header claims ", length, " bytes, the limit is ", kMaxHeader,
                  ": the file is damaged"));
    }
    if (length > size_ - 8) {
      fail(concat("its header claims ", length, " bytes, but only ", size_ - 8,
                  " follow: the file is truncated"));
    }
    data_ = 8 + length;
    std::string text(length, '\0');
    read_bytes(text.data(), length);
    HeaderCheck check;
    if (!Json::sax_parse(text, &check)) {
      fail(check.problem().empty() ? "its header is not valid JSON: the file is damaged"
                                   : check.problem());
    }
    try {
      Json header = Json::parse(text);
      if (!header.is_object()) fail("its header is not a JSON object: the file is damaged");
      return header;
    } catch (const nlohmann::json::exception&) {
      fail("its header is not valid JSON: the file is damaged");
    }
  }

  void read_metadata(const Json& header, Metadata& metadata) const {
    const auto found = header.find("__metadata__");
    if (found == header.end()) return;
    if (!found->is_object()) fail("__metadata__ is not a JSON object: the file is damaged");
    for (const auto& [key, value] : found->items()) {
      if (!value.is_string()) fail("__metadata__." + key + " is not a string: the file is damaged");
      metadata[key] = value.get<std::string>();
    }
  }

  void check_header(const Json& header, const Metadata& metadata) const {
    const auto version = metadata.find("trainer");
    const auto expected = metadata.find("header_sha256");
    const bool ours = version != metadata.end();
    if (expected == metadata.end() && (!ours || version->second == "1")) return;
    if (ours && version->second != kVersion) {
      fail(concat("is of format version '", version->second, "', but this program reads 1 and ",
                  kVersion, ": it was written by a newer one, or is damaged"));
    }
    if (expected == metadata.end() || compute_checksum(header) != expected->second) {
      fail("the checksum of its header does not match: the file is damaged");
    }
  }

  Entry read_entry(const std::string& name, const Json& value) const {
    Entry entry;
    entry.name = name;
    std::uint64_t elements = 1;
    std::string type;
    try {
      type = value.at("dtype").get<std::string>();
      const Json& offsets = value.at("data_offsets");
      if (offsets.size() != 2) fail("tensor " + name + ": data_offsets must be two numbers");
      entry.begin = offsets.at(0).get<std::uint64_t>();
      entry.end = offsets.at(1).get<std::uint64_t>();
      std::vector<std::int64_t> dims;
      for (const Json& dim : value.at("shape")) {
        if (!dim.is_number_unsigned()) fail("tensor " + name + ": its shape is not of numbers");
        dims.push_back(dim.get<std::int64_t>());
        if (__builtin_mul_overflow(elements, dim.get<std::uint64_t>(), &elements)) {
          fail("tensor " + name + ": its shape is impossibly large");
        }
      }
      entry.shape = Shape(std::move(dims));
    } catch (const nlohmann::json::exception&) {
      fail("tensor " + name + ": needs dtype, shape and data_offsets; the header is damaged");
    }
    entry.type = find_element_type(type, &ElementType::safetensors);
    if (entry.type == nullptr) {
      fail(concat("tensor ", name, ": has the type ", printable(type),
                  "; F32, F16, BF16, F64 and integers can be read"));
    }
    if (entry.begin > entry.end || entry.end > size_ - data_) {
      fail(concat("tensor ", name, ": lies at ", entry.begin, " to ", entry.end, " of ",
                  size_ - data_, " bytes: the file is truncated or damaged"));
    }
    std::uint64_t bytes = 0;
    if (__builtin_mul_overflow(elements, entry.type->bytes, &bytes) ||
        bytes != entry.end - entry.begin) {
      fail(concat("tensor ", name, ": ", type, " ", to_string(entry.shape), " needs ", bytes,
                  " bytes, its offsets span ", entry.end - entry.begin));
    }
    return entry;
  }

  std::vector<Entry> read_entries(const Json& header) const {
    std::vector<Entry> entries;
    for (const auto& [name, value] : header.items()) {
      if (name != "__metadata__") entries.push_back(read_entry(name, value));
    }
    std::ranges::stable_sort(entries, [](const Entry& a, const Entry& b) {
      return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
    });
    std::uint64_t at = 0;
    for (const Entry& entry : entries) {
      if (entry.begin != at) {
        fail(concat("tensor ", entry.name, ": ",
                    entry.begin < at ? "overlaps the one before it" : "leaves a gap before it",
                    ": the file is damaged"));
      }
      at = entry.end;
    }
    if (at != size_ - data_) {
      fail(concat("its tensors end at byte ", at, " of ", size_ - data_, ": the file is damaged"));
    }
    return entries;
  }

  static Tensor make_tensor(const Entry& entry) {
    return {entry.name, entry.shape, {}, entry.type->is_integer};
  }

  // Reads float32 in place; other types through `raw`.
  Tensor read_tensor(const Entry& entry, Bytes& raw, Sha256& sha) {
    Tensor tensor = make_tensor(entry);
    tensor.values.resize(entry.shape.elements());
    const std::uint64_t size = entry.end - entry.begin;
    if (entry.type->safetensors == "F32") {
      read_bytes(tensor.values.data(), size);
      sha.update(view_bytes(tensor.values));
      return tensor;
    }
    raw.resize(size);
    read_bytes(raw.data(), size);
    sha.update(raw);
    entry.type->convert(raw, tensor.values);
    return tensor;
  }

  Path path_;
  std::ifstream in_;
  std::uint64_t size_ = 0;
  std::uint64_t data_ = 0;  // where the tensors start
};

}  // namespace

void write_safetensors(const Path& path, const std::vector<Tensor>& tensors,
                       const Metadata& metadata, const Progress& progress) {
  Pieces content;
  std::list<std::vector<std::int64_t>> integers;
  for (const Tensor& tensor : tensors) {
    content.push_back(tensor.is_integer ? view_bytes(integers.emplace_back(tensor.values.begin(),
                                                                           tensor.values.end()))
                                        : view_bytes(tensor.values));
  }
  const std::string header = make_header(tensors, content, metadata);
  const std::uint64_t length = header.size();
  Pieces pieces{{reinterpret_cast<const std::uint8_t*>(&length), sizeof length},
                {reinterpret_cast<const std::uint8_t*>(header.data()), header.size()}};
  pieces.insert(pieces.end(), content.begin(), content.end());
  write_file_atomic(path, pieces, progress);
}

TensorFile read_safetensors(const Path& path, Content content) {
  if (std::filesystem::is_directory(path)) throw DataError(path, "is a folder, expected a file");
  return File(path).read(content);
}

TensorFile read_checkpoint(const Path& path) {
  TensorFile file = read_safetensors(path);
  for (const char* checksum : {"header_sha256", "sha256"}) {
    if (file.metadata.contains(checksum)) continue;
    throw DataError(path, "has no ", checksum,
                    ": not a checkpoint of a run as this program writes it. Name a "
                    "run folder or a file of its checkpoints; weights of other "
                    "programs are read with model.weights or --weights of a config");
  }
  return file;
}

std::string sha256_of(const std::vector<Tensor>& tensors) {
  std::vector<const Tensor*> sorted;
  for (const Tensor& tensor : tensors) sorted.push_back(&tensor);
  std::ranges::sort(sorted, [](const Tensor* a, const Tensor* b) { return a->name < b->name; });
  Sha256 sha;
  for (const Tensor* tensor : sorted) sha.update(view_bytes(tensor->values));
  return sha.hex();
}

}  // namespace trainer::checkpoint
