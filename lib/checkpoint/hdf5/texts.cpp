#include "checkpoint/hdf5/texts.h"

#include <algorithm>

#include "checkpoint/hdf5/types.h"

namespace trainer::checkpoint::hdf5 {
namespace {

std::uint64_t padded(std::uint64_t size) { return (size + 7) / 8 * 8; }

const std::map<std::uint32_t, View>& read_collection(Input& input, GlobalHeap& heap,
                                                     std::uint64_t address) {
  const auto [at, is_new] = heap.try_emplace(address);
  auto& objects = at->second;
  if (!is_new) return objects;
  constexpr const char* kWhat = "a collection of texts";
  Fields head(input, input.claim(address, 16, kWhat), kWhat);
  head.expect(std::string_view("GCOL\1", 5));
  head.skip(3);
  const auto size = head.next<std::uint64_t>();
  if (size < 16) input.damaged(concat(kWhat, " is too short"));
  Fields fields(input, input.claim(address + 16, size - 16, kWhat), kWhat);
  while (fields.left() >= 16) {
    const std::uint32_t number = fields.next<std::uint16_t>();
    fields.skip(6);
    const auto bytes = fields.next<std::uint64_t>();
    if (number == 0) break;  // the rest is free
    objects[number] = fields.take(bytes);
    fields.skip(std::min<std::uint64_t>(padded(bytes) - bytes, fields.left()));
  }
  return objects;
}

std::string read_variable_text(Input& input, GlobalHeap& heap, Fields& fields) {
  const auto length = fields.next<std::uint32_t>();
  const auto address = fields.next<std::uint64_t>();
  const auto number = fields.next<std::uint32_t>();
  if (length == 0) return {};
  const auto& objects = read_collection(input, heap, address);
  const auto object = objects.find(number);
  if (object == objects.end() || object->second.size() < length) {
    input.damaged("a text is not at its address");
  }
  const auto* text = reinterpret_cast<const char*>(object->second.data());
  return input.copied({text, strnlen(text, length)});
}

}  // namespace

std::vector<std::string> read_texts(Input& input, GlobalHeap& heap, View attribute,
                                    const std::string& where) {
  constexpr const char* kWhat = "an attribute";
  Fields fields(input, attribute, kWhat);
  const auto version = fields.next<std::uint8_t>();
  const auto flags = fields.next<std::uint8_t>();
  const std::size_t sizes[] = {fields.next<std::uint16_t>(), fields.next<std::uint16_t>(),
                               fields.next<std::uint16_t>()};
  if (version == 3) fields.skip(1);
  if (version > 1 && flags != 0) input.unsupported("an attribute whose type lies elsewhere");
  const auto part = [&](std::size_t size) {
    return fields.take(version == 1 ? padded(size) : size).first(size);
  };
  part(sizes[0]);  // the name
  const View type_message = part(sizes[1]), space_message = part(sizes[2]);
  const std::optional<std::uint64_t> count = read_dataspace(input, space_message).elements();
  if (count == 0u) return {};  // some write an empty list of texts as an empty list of numbers
  const Datatype type = read_datatype(input, type_message);
  const bool variable = type.kind == Datatype::Kind::kVariableText;
  if (!variable && type.kind != Datatype::Kind::kText) {
    input.fail(where + " is not a list of texts");
  }
  if (!count || *count > fields.left() / type.bytes) input.damaged(where + " is too short");
  std::vector<std::string> texts;
  for (std::uint64_t i = 0; i < *count; ++i) {
    if (variable) {
      texts.push_back(read_variable_text(input, heap, fields));
      continue;
    }
    const auto* text = reinterpret_cast<const char*>(fields.take(type.bytes).data());
    texts.push_back(input.copied({text, strnlen(text, type.bytes)}));
  }
  return texts;
}

}  // namespace trainer::checkpoint::hdf5
