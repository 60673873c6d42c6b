// Superblock 0, object headers of version 1, groups as symbol tables, contiguous datasets: see the
// "HDF5 File Format Specification Version 3.0".
#include "checkpoint/hdf5/writer.h"

#include <algorithm>
#include <string_view>
#include <type_traits>

#include "checkpoint/hdf5/object.h"

namespace trainer::checkpoint::hdf5 {
namespace {

// Tree nodes and symbol nodes are stored in full; the superblock has the number of their entries.
constexpr std::size_t kSymbolsPerNode = 8, kChildrenPerNode = 32;
constexpr std::size_t kSuperblockBytes = 96;
constexpr std::size_t kSymbolNodeBytes = 8 + 40 * kSymbolsPerNode;
constexpr std::size_t kTreeNodeBytes = 24 + 16 * kChildrenPerNode + 8;
// An attribute holds at most 64 KiB.
constexpr std::size_t kMaxAttributeBytes = 64000;

void put(Bytes& to, std::string_view text) {
  for (const char c : text) to.push_back(static_cast<std::uint8_t>(c));
}
void put_bytes(Bytes& to, std::initializer_list<std::uint8_t> bytes) {
  for (const std::uint8_t byte : bytes) to.push_back(byte);
}
template <class T>
requires std::is_unsigned_v<T>
void put(Bytes& to, T value) {
  for (std::size_t i = 0; i < sizeof value; ++i) {
    to.push_back(static_cast<std::uint8_t>(value >> 8 * i));
  }
}
void pad(Bytes& to) { to.resize((to.size() + 7) / 8 * 8, 0); }

std::uint64_t append(Bytes& file, const Bytes& structure) {
  pad(file);
  const std::uint64_t address = file.size();
  file.insert(file.end(), structure.begin(), structure.end());
  return address;
}

Bytes dataspace(std::span<const std::int64_t> extents) {
  Bytes bytes;
  put_bytes(bytes, {1, static_cast<std::uint8_t>(extents.size()), 0, 0, 0, 0, 0, 0});
  for (const std::int64_t extent : extents) put(bytes, static_cast<std::uint64_t>(extent));
  return bytes;
}

// float32, little-endian: sign at bit 31, 8 bits of exponent from bit 23, a bias of 127.
Bytes float_type() {
  Bytes bytes;
  put_bytes(bytes, {0x11, 0x20, 31, 0, 4, 0, 0, 0, 0, 0, 32, 0, 23, 8, 0, 23, 127, 0, 0, 0});
  return bytes;
}

// Text of `width` bytes, filled up with zeros.
Bytes text_type(std::size_t width) {
  Bytes bytes;
  put_bytes(bytes, {0x13, 1, 0, 0});
  put(bytes, static_cast<std::uint32_t>(width));
  return bytes;
}

Bytes attribute(const std::string& name, std::size_t width, std::span<const std::int64_t> extents,
                std::string_view content) {
  const Bytes type = text_type(width), space = dataspace(extents);
  Bytes bytes;
  put_bytes(bytes, {1, 0});
  put(bytes, static_cast<std::uint16_t>(name.size() + 1));
  put(bytes, static_cast<std::uint16_t>(type.size()));
  put(bytes, static_cast<std::uint16_t>(space.size()));
  put(bytes, name);
  bytes.push_back(0);
  pad(bytes);
  for (const Bytes& part : {type, space}) {
    bytes.insert(bytes.end(), part.begin(), part.end());
    pad(bytes);
  }
  put(bytes, content);
  return bytes;
}

using Messages = std::vector<std::pair<MessageType, Bytes>>;

std::uint64_t append_header(Bytes& file, const Messages& messages) {
  Bytes body;
  for (const auto& [type, content] : messages) {
    Bytes message = content;
    pad(message);
    put(body, static_cast<std::uint16_t>(type));
    put(body, static_cast<std::uint16_t>(message.size()));
    put(body, std::uint32_t{0});
    body.insert(body.end(), message.begin(), message.end());
  }
  Bytes header;
  put_bytes(header, {1, 0});
  put(header, static_cast<std::uint16_t>(messages.size()));
  put(header, std::uint32_t{1});  // links to the object
  put(header, static_cast<std::uint32_t>(body.size()));
  put(header, std::uint32_t{0});
  header.insert(header.end(), body.begin(), body.end());
  return append(file, header);
}

// An entry of a tree of names: where it lies and the place in the heap of its last name.
struct Entry {
  std::uint64_t address, last_name;
};

// Writes nodes of one level over `entries`, side by side, and returns an entry for each.
std::vector<Entry> append_tree_level(Bytes& file, int level, const std::vector<Entry>& entries) {
  pad(file);
  const std::size_t nodes =
      std::max<std::size_t>((entries.size() + kChildrenPerNode - 1) / kChildrenPerNode, 1);
  const std::uint64_t first = file.size();
  std::vector<Entry> written;
  std::uint64_t name_before = 0;  // the empty name at the start of the heap
  for (std::size_t node = 0; node < nodes; ++node) {
    const std::size_t begin = node * kChildrenPerNode;
    const std::size_t end = std::min(begin + kChildrenPerNode, entries.size());
    const std::uint64_t address = first + node * kTreeNodeBytes;
    Bytes bytes;
    put(bytes, std::string_view("TREE"));
    put_bytes(bytes, {0, static_cast<std::uint8_t>(level)});
    put(bytes, static_cast<std::uint16_t>(end - begin));
    put(bytes, node == 0 ? kUndefined : address - kTreeNodeBytes);
    put(bytes, node + 1 == nodes ? kUndefined : address + kTreeNodeBytes);
    put(bytes, name_before);
    for (std::size_t i = begin; i < end; ++i) {
      put(bytes, entries[i].address);
      put(bytes, entries[i].last_name);
      name_before = entries[i].last_name;
    }
    bytes.resize(kTreeNodeBytes, 0);
    append(file, bytes);
    written.push_back({address, name_before});
  }
  return written;
}

// Writes the symbol table of a group: its sorted names, the tree over them. Returns its message.
Bytes append_symbol_table(Bytes& file,
                          const std::vector<std::pair<std::string, std::uint64_t>>& all) {
  Bytes names(8, 0), node;
  std::vector<Entry> level;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::size_t in_node = i % kSymbolsPerNode;
    if (in_node == 0) {
      node.clear();
      put(node, std::string_view("SNOD"));
      put_bytes(node, {1, 0});
      put(node, static_cast<std::uint16_t>(std::min(kSymbolsPerNode, all.size() - i)));
    }
    const std::uint64_t name = names.size();
    put(names, all[i].first);
    names.push_back(0);
    pad(names);
    put(node, name);
    put(node, all[i].second);
    node.resize(node.size() + 24, 0);
    if (in_node + 1 == kSymbolsPerNode || i + 1 == all.size()) {
      node.resize(kSymbolNodeBytes, 0);
      level.push_back({append(file, node), name});
    }
  }
  int height = 0;
  do {
    level = append_tree_level(file, height++, level);
  } while (level.size() > 1);
  Bytes heap;
  put(heap, std::string_view("HEAP"));
  put(heap, std::uint32_t{0});
  put(heap, std::uint64_t{names.size()});
  put(heap, std::uint64_t{1});  // no free space
  put(heap, append(file, names));
  Bytes message;
  put(message, level.front().address);
  put(message, append(file, heap));
  return message;
}

void put_superblock(Bytes& file, std::uint64_t root) {
  Bytes bytes;
  put(bytes, std::string_view("\x89HDF\r\n\x1a\n"));
  put_bytes(bytes, {0, 0, 0, 0, 0, 8, 8, 0});
  put(bytes, std::uint16_t{kSymbolsPerNode / 2});
  put(bytes, std::uint16_t{kChildrenPerNode / 2});
  put(bytes, std::uint32_t{0});
  put(bytes, std::uint64_t{0});
  put(bytes, kUndefined);
  put(bytes, std::uint64_t{file.size()});
  put(bytes, kUndefined);
  put(bytes, std::uint64_t{0});
  put(bytes, root);
  bytes.resize(kSuperblockBytes, 0);
  std::ranges::copy(bytes, file.begin());
}

}  // namespace

struct Writer::Node {
  std::map<std::string, Node> children;
  Messages messages;  // attributes, and what makes a dataset of it
  bool is_dataset = false;

  std::uint64_t append_to(Bytes& file) {
    if (!is_dataset) {
      std::vector<std::pair<std::string, std::uint64_t>> links;
      for (auto& [name, child] : children) links.emplace_back(name, child.append_to(file));
      messages.emplace_back(MessageType::kSymbolTable, append_symbol_table(file, links));
    }
    return append_header(file, messages);
  }
};

Writer::Writer() : root_(std::make_unique<Node>()), file_(kSuperblockBytes, 0) {}
Writer::~Writer() = default;

Writer::Node& Writer::at(const std::string& name) {
  Node* node = root_.get();
  for (std::size_t begin = 0; begin < name.size();) {
    const std::size_t end = std::min(name.find('/', begin), name.size());
    if (end > begin) node = &node->children[name.substr(begin, end - begin)];
    begin = end + 1;
  }
  return *node;
}

void Writer::group(const std::string& name) { at(name); }

void Writer::text(const std::string& object, const std::string& name, const std::string& value) {
  const std::size_t width = std::max<std::size_t>(value.size(), 1);
  at(object).messages.emplace_back(MessageType::kAttribute, attribute(name, width, {}, value));
}

void Writer::texts(const std::string& object, const std::string& name,
                   const std::vector<std::string>& values) {
  std::size_t width = 1;
  for (const std::string& value : values) width = std::max(width, value.size());
  const std::size_t piece = std::max<std::size_t>(kMaxAttributeBytes / width, 1);
  const bool is_whole = values.size() <= piece;
  for (std::size_t first = 0, number = 0; first == 0 || first < values.size(); first += piece) {
    const std::size_t count = std::min(piece, values.size() - first);
    std::string content(count * width, '\0');
    for (std::size_t i = 0; i < count; ++i) {
      content.replace(i * width, values[first + i].size(), values[first + i]);
    }
    const std::int64_t extent = static_cast<std::int64_t>(count);
    at(object).messages.emplace_back(
        MessageType::kAttribute,
        attribute(is_whole ? name : concat(name, number++), width, {&extent, 1}, content));
  }
}

void Writer::dataset(const std::string& name, const Shape& shape, std::span<const float> values) {
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(values.data());
  pad(file_);
  Bytes layout;
  put_bytes(layout, {3, 1});  // contiguous
  put(layout, values.empty() ? kUndefined : std::uint64_t{file_.size()});
  put(layout, std::uint64_t{values.size_bytes()});
  file_.insert(file_.end(), bytes, bytes + values.size_bytes());
  Node& node = at(name);
  node.is_dataset = true;
  node.messages.emplace_back(MessageType::kDataspace, dataspace(shape.dims()));
  node.messages.emplace_back(MessageType::kDatatype, float_type());
  node.messages.emplace_back(MessageType::kLayout, std::move(layout));
}

Bytes Writer::finish() {
  const std::uint64_t root = root_->append_to(file_);
  put_superblock(file_, root);
  root_ = std::make_unique<Node>();
  return std::exchange(file_, Bytes(kSuperblockBytes, 0));
}

}  // namespace trainer::checkpoint::hdf5
