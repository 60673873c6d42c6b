// The structures are described in the "HDF5 File Format Specification Version 3.0".
#include "checkpoint/hdf5/object.h"

#include <algorithm>

namespace trainer::checkpoint::hdf5 {
namespace {

constexpr std::size_t kMaxMessages = 1u << 16;

// The flag of a message that lies elsewhere.
constexpr std::uint8_t kSharedFlag = 2;

// Header pieces that are still to be read: address and size.
using Pieces = std::vector<std::pair<std::uint64_t, std::uint64_t>>;

void check_sum(const Input& input, View bytes, const char* what) {
  std::uint32_t stored = 0;
  std::memcpy(&stored, bytes.data() + bytes.size() - 4, 4);
  if (lookup3(bytes.first(bytes.size() - 4)) != stored) {
    input.damaged(concat("the checksum of ", what, " does not match"));
  }
}

void add_message(const Input& input, std::uint16_t type, std::uint8_t flags, View body,
                 Object& object, Pieces& pieces) {
  const auto kind = static_cast<MessageType>(type);
  switch (kind) {
    case MessageType::kContinuation: {
      Fields fields(input, body, "a continuation");
      const auto address = fields.next<std::uint64_t>();
      pieces.emplace_back(address, fields.next<std::uint64_t>());
      return;
    }
    case MessageType::kDataspace:
    case MessageType::kLinkInfo:
    case MessageType::kDatatype:
    case MessageType::kLink:
    case MessageType::kExternalFiles:
    case MessageType::kLayout:
    case MessageType::kFilters:
    case MessageType::kAttribute:
    case MessageType::kSymbolTable:
    case MessageType::kAttributeInfo:
      if (object.messages.size() == kMaxMessages) input.damaged("an object has no end");
      object.messages.push_back({kind, (flags & kSharedFlag) != 0, body});
      return;
  }
  // Times, comments, fill values: no weights.
}

void read_messages_v1(const Input& input, View bytes, Object& object, Pieces& pieces) {
  Fields fields(input, bytes, "an object header");
  while (fields.left() >= 8) {
    const auto type = fields.next<std::uint16_t>();
    const auto size = fields.next<std::uint16_t>();
    const auto flags = fields.next<std::uint8_t>();
    fields.skip(3);
    add_message(input, type, flags, fields.take(size), object, pieces);
  }
}

void read_messages_v2(const Input& input, View bytes, bool has_order, Object& object,
                      Pieces& pieces) {
  Fields fields(input, bytes, "an object header");
  const std::size_t head = has_order ? 6 : 4;
  while (fields.left() >= head) {
    const auto type = fields.next<std::uint8_t>();
    const auto size = fields.next<std::uint16_t>();
    const auto flags = fields.next<std::uint8_t>();
    if (has_order) fields.skip(2);
    add_message(input, type, flags, fields.take(size), object, pieces);
  }
}

void read_header_v1(Input& input, std::uint64_t address, Object& object) {
  Fields prefix(input, input.claim(address, 16, "an object header"), "an object header");
  if (prefix.next<std::uint8_t>() != 1) input.damaged("an object header has no known version");
  prefix.skip(7);
  Pieces pieces = {{address + 16, prefix.next<std::uint32_t>()}};
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const auto [at, size] = pieces[i];
    read_messages_v1(input, input.claim(at, size, "an object header"), object, pieces);
  }
}

void read_header_v2(Input& input, std::uint64_t address, Object& object) {
  constexpr std::uint8_t kOrder = 4, kPhases = 16, kTimes = 32;
  const View start = input.claim(address, 6, "an object header");
  if (start[4] != 2) input.damaged("an object header has no known version");
  const std::uint8_t flags = start[5];
  const std::size_t width = std::size_t{1} << (flags & 3u);
  const std::size_t fixed = (flags & kTimes ? 16 : 0) + (flags & kPhases ? 4 : 0) + width;
  Fields prefix(input, input.claim(address + 6, fixed, "an object header"), "an object header");
  prefix.skip(fixed - width);
  const std::uint64_t size = prefix.number(width);
  const std::uint64_t begin = 6 + fixed;
  const View messages = input.claim(address + begin, size, "an object header");
  input.claim(address + begin + size, 4, "an object header");
  check_sum(input, View(start.data(), begin + size + 4), "an object header");
  Pieces pieces;
  read_messages_v2(input, messages, flags & kOrder, object, pieces);
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const View piece = input.claim(pieces[i].first, pieces[i].second, "an object header");
    if (piece.size() < 8) input.damaged("an object header is too short");
    Fields(input, piece, "a continued object header").expect("OCHK");
    check_sum(input, piece, "an object header");
    read_messages_v2(input, piece.subspan(4, piece.size() - 8), flags & kOrder, object, pieces);
  }
}

void read_symbols(Input& input, std::uint64_t address, View heap, std::vector<Link>& links) {
  Fields head(input, input.claim(address, 8, "a symbol node"), "a symbol node");
  head.expect("SNOD");
  head.skip(2);
  const std::uint64_t count = head.next<std::uint16_t>();
  Fields symbols(input, input.claim(address + 8, count * 40, "a symbol node"), "a symbol node");
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::string_view name =
        input.text_at(heap, symbols.next<std::uint64_t>(), "the name of an object");
    const auto header = symbols.next<std::uint64_t>();
    constexpr std::uint32_t kSoftLink = 2;
    if (symbols.next<std::uint32_t>() == kSoftLink) {
      input.unsupported(concat("the soft link '", name, "'"));
    }
    symbols.skip(20);
    links.emplace_back(name, header);
  }
}

// `level`: of the node, or -1 for the root, whose level is its own.
void read_group_tree(Input& input, std::uint64_t address, int level, View heap,
                     std::vector<Link>& links) {
  Fields head(input, input.claim(address, 24, "the tree of a group"), "the tree of a group");
  head.expect("TREE");
  if (head.next<std::uint8_t>() != 0) input.damaged("the tree of a group is of another kind");
  const int own_level = head.next<std::uint8_t>();
  if (level >= 0 && own_level != level) input.damaged("the tree of a group has no order");
  const std::uint64_t count = head.next<std::uint16_t>();
  Fields body(input, input.claim(address + 24, count * 16 + 8, "the tree of a group"),
              "the tree of a group");
  for (std::uint64_t i = 0; i < count; ++i) {
    body.skip(8);
    const auto child = body.next<std::uint64_t>();
    if (own_level == 0) {
      read_symbols(input, child, heap, links);
    } else {
      read_group_tree(input, child, own_level - 1, heap, links);
    }
  }
}

void read_symbol_table(Input& input, View body, std::vector<Link>& links) {
  Fields fields(input, body, "a symbol table");
  const auto tree = fields.next<std::uint64_t>();
  const auto heap_address = fields.next<std::uint64_t>();
  Fields heap(input, input.claim(heap_address, 32, "a heap of names"), "a heap of names");
  heap.expect(std::string_view("HEAP\0", 5));
  heap.skip(3);
  const auto size = heap.next<std::uint64_t>();
  heap.skip(8);
  const View names = input.claim(heap.next<std::uint64_t>(), size, "a heap of names");
  read_group_tree(input, tree, -1, names, links);
}

Link read_link(const Input& input, View body) {
  constexpr std::uint8_t kType = 8, kOrder = 4, kCharacters = 16;
  Fields fields(input, body, "a link");
  if (fields.next<std::uint8_t>() != 1) input.damaged("a link has no known version");
  const auto flags = fields.next<std::uint8_t>();
  const bool hard = !(flags & kType) || fields.next<std::uint8_t>() == 0;
  if (flags & kOrder) fields.skip(8);
  if (flags & kCharacters) fields.skip(1);
  const View name = fields.take(fields.number(std::size_t{1} << (flags & 3u)));
  const std::string_view text(reinterpret_cast<const char*>(name.data()), name.size());
  if (!hard) input.unsupported("a soft or external link");
  return {text, fields.next<std::uint64_t>()};
}

// Many links or attributes of a newer file lie in a heap that this reader cannot read.
void refuse_heap(const Input& input, const Message& message) {
  const bool of_links = message.type == MessageType::kLinkInfo;
  Fields fields(input, message.body, "a header message");
  fields.skip(1);
  const auto flags = fields.next<std::uint8_t>();
  if (flags & 1) fields.skip(of_links ? 8 : 2);  // the highest creation order
  if (fields.next<std::uint64_t>() != kUndefined) {
    input.unsupported(of_links ? "a group in the newer layout for many objects (a fractal heap)"
                               : "attributes in the newer layout for many (a fractal heap)");
  }
}

// The name of an attribute and its whole message.
std::pair<std::string_view, View> read_attribute_name(const Input& input, View body) {
  Fields fields(input, body, "an attribute");
  const auto version = fields.next<std::uint8_t>();
  if (version < 1 || version > 3) input.damaged("an attribute has no known version");
  fields.skip(1);
  const std::size_t size = fields.next<std::uint16_t>();
  fields.skip(version == 3 ? 5 : 4);
  const View name = fields.take(size);
  const auto* text = reinterpret_cast<const char*>(name.data());
  return {std::string_view(text, strnlen(text, name.size())), body};
}

template <class Named>
void sort_by_name(const Input& input, std::vector<Named>& all, const char* what) {
  const auto by_name = [](const Named& a, const Named& b) { return a.first < b.first; };
  std::ranges::sort(all, by_name);
  const auto twice = std::ranges::adjacent_find(
      all, [](const Named& a, const Named& b) { return a.first == b.first; });
  if (twice != all.end()) input.damaged(concat("two ", what, " are named '", twice->first, "'"));
}

}  // namespace

const Message* Object::find(MessageType type) const {
  const auto at = std::ranges::find(messages, type, &Message::type);
  return at == messages.end() ? nullptr : &*at;
}

bool Object::is_group() const {
  return find(MessageType::kSymbolTable) != nullptr || find(MessageType::kLinkInfo) != nullptr ||
         find(MessageType::kLink) != nullptr;
}

std::uint64_t root_address(Input& input) {
  const View start = input.claim(0, 9, "the superblock");
  Fields(input, start, "the superblock").expect("\x89HDF\r\n\x1a\n");
  const int version = start[8];
  if (version > 3) input.unsupported(concat("superblock version ", version));
  const bool old = version < 2;
  const std::size_t size = version == 0 ? 96 : version == 1 ? 100 : 48;
  Fields fields(input, input.claim(9, size - 9, "the superblock"), "the superblock");
  if (!old) check_sum(input, View(start.data(), size), "the superblock");
  if (old) fields.skip(4);  // versions of other structures
  const int offset_bytes = fields.next<std::uint8_t>(), length_bytes = fields.next<std::uint8_t>();
  if (offset_bytes != 8 || length_bytes != 8) input.unsupported("addresses that are not 8 bytes");
  fields.skip(old ? (version == 1 ? 13 : 9) : 1);  // flags and sizes of tree nodes
  if (fields.next<std::uint64_t>() != 0) input.unsupported("a user block");
  fields.skip(8);
  const auto end = fields.next<std::uint64_t>();
  if (end > input.size()) {
    input.damaged(concat("it has ", input.size(), " bytes of ", end));
  }
  if (old) fields.skip(16);  // the driver and the root's name
  return fields.next<std::uint64_t>();
}

Object read_object(Input& input, std::uint64_t address) {
  Object object;
  const View first = input.peek(address, "an object header");
  if (first[0] == 'O') {
    Fields(input, first, "an object header").expect("OHDR");
    read_header_v2(input, address, object);
  } else {
    read_header_v1(input, address, object);
  }
  for (const Message& message : object.messages) {
    if (message.type == MessageType::kAttribute) {
      object.attributes.push_back(read_attribute_name(input, message.body));
    } else if (message.type == MessageType::kLink) {
      object.links.push_back(read_link(input, message.body));
    } else if (message.type == MessageType::kSymbolTable) {
      read_symbol_table(input, message.body, object.links);
    } else if (message.type == MessageType::kLinkInfo ||
               message.type == MessageType::kAttributeInfo) {
      refuse_heap(input, message);
    }
  }
  sort_by_name(input, object.links, "objects of a group");
  sort_by_name(input, object.attributes, "attributes of an object");
  return object;
}

}  // namespace trainer::checkpoint::hdf5
