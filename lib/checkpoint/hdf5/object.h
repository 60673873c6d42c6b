// Reads object headers and the links of groups. Internal to checkpoint.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "checkpoint/hdf5/input.h"

namespace trainer::checkpoint::hdf5 {

// The messages of an object header that concern weights.
enum class MessageType : std::uint16_t {
  kDataspace = 0x01,
  kLinkInfo = 0x02,
  kDatatype = 0x03,
  kLink = 0x06,
  kExternalFiles = 0x07,
  kLayout = 0x08,
  kFilters = 0x0b,
  kAttribute = 0x0c,
  kContinuation = 0x10,
  kSymbolTable = 0x11,
  kAttributeInfo = 0x15
};

struct Message {
  MessageType type;
  bool shared = false;  // the body is the address of the message
  View body;            // bytes of the file
};

// A name and the address of an object header.
using Link = std::pair<std::string_view, std::uint64_t>;

struct Object {
  std::vector<Message> messages;
  std::vector<Link> links;                                    // sorted by name
  std::vector<std::pair<std::string_view, View>> attributes;  // sorted by name; the message

  const Message* find(MessageType type) const;
  bool is_dataset() const { return find(MessageType::kLayout) != nullptr; }
  bool is_group() const;
};

// Checks the superblock and returns the address of the root group's header.
std::uint64_t root_address(Input& input);

// Reads the header at `address` and, for a group, its links: small groups in link messages, others
// in a symbol table.
Object read_object(Input& input, std::uint64_t address);

}  // namespace trainer::checkpoint::hdf5
