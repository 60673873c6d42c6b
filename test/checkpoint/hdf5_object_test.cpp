// Superblocks, object headers, groups and texts of HDF5 files, put together by hand.
#include <doctest/doctest.h>

#include <algorithm>

#include "checkpoint/hdf5/reader.h"
#include "checkpoint/hdf5_raw.h"

namespace trainer::checkpoint::hdf5::raw {
namespace {

using Texts = std::vector<std::string>;

Texts texts(const Bytes& file) { return Reader("x.h5", file).texts("d", "a"); }

void refuses(const Bytes& file, const char* why) {
  CAPTURE(why);
  CHECK_THROWS_WITH_AS(texts(file), doctest::Contains(why), DataError);
}

Bytes text_type(unsigned width) { return Raw().u32(0x13).u32(width); }
Bytes variable_type(unsigned bits = 1, unsigned bytes = 16) {
  return Raw().u8(0x19).u8(bits).u16(0).u32(bytes).add(text_type(1));
}

struct RawAttribute {
  Bytes type, space, content;
  unsigned version = 1, flags = 0;
  std::string name = "a";
};

Bytes to_bytes(const RawAttribute& attribute) {
  const bool padded = attribute.version == 1;
  Raw raw;
  raw.u8(attribute.version).u8(attribute.flags).u16(attribute.name.size() + 1);
  raw.u16(attribute.type.size()).u16(attribute.space.size());
  if (attribute.version == 3) raw.u8(0);  // ASCII
  raw.text(attribute.name).u8(0);
  if (padded) raw.pad();
  raw.add(attribute.type);
  if (padded) raw.pad();
  raw.add(attribute.space);
  if (padded) raw.pad();
  return raw.add(attribute.content);
}

Bytes file_with(const RawAttribute& attribute, const Bytes& data = {}) {
  return make_file({{kAttribute, to_bytes(attribute)}}, data);
}

// A collection of the global heap: 16 bytes of head, then the objects of numbers 1, 2 and so on.
Bytes collection(const std::vector<std::string>& objects, std::size_t free_bytes) {
  Raw body;
  unsigned number = 0;
  for (const std::string& object : objects) {
    body.u16(++number).u16(1).u32(0).u64(object.size()).text(object).pad();
  }
  body.zeros(free_bytes);
  return Raw().text("GCOL").u8(1).zeros(3).u64(16 + body.size()).add(body);
}

Bytes reference(std::uint64_t length, std::uint64_t number, std::uint64_t address = kData) {
  return Raw().u32(length).u64(address).u32(number);
}

// An object header of version 2.
Bytes header_v2(unsigned flags, const Bytes& messages) {
  Raw raw;
  raw.text("OHDR").u8(2).u8(flags);
  if (flags & 32) raw.zeros(16);
  if (flags & 16) raw.zeros(4);
  const unsigned width = 1u << (flags & 3);
  if (width == 1) raw.u8(messages.size());
  if (width == 2) raw.u16(messages.size());
  if (width == 4) raw.u32(messages.size());
  if (width == 8) raw.u64(messages.size());
  return raw.add(messages).checksum();
}

Bytes messages_v2(const std::vector<RawMessage>& messages, bool has_order = false) {
  Raw raw;
  for (const RawMessage& each : messages) {
    raw.u8(each.type).u16(each.body.size()).u8(each.flags);
    if (has_order) raw.u16(7);
    raw.add(each.body);
  }
  return raw;
}

// A file whose object "d" has this header, with `data` at kData.
Bytes file_of_header(const Bytes& header, const Bytes& data = {}) {
  return Raw()
      .add(superblock_v0(kRoot, kData + data.size()))
      .add(header_v1({{kLink, link("d", kObject)}}))
      .pad_to(kObject)
      .add(header)
      .pad_to(kData)
      .add(data);
}

// A file of a root group with these messages.
Bytes file_of_root(const std::vector<RawMessage>& root, const Bytes& data = {}) {
  return Raw()
      .add(superblock_v0(kRoot, kData + data.size()))
      .add(header_v1(root))
      .pad_to(kObject)
      .add(header_v1({{kLayout, {}}}))
      .pad_to(kData)
      .add(data);
}

const RawAttribute kTwo{text_type(3), dataspace({2}), Raw().text("ab").u8(0).text("cde")};
const Texts kTwoTexts{"ab", "cde"};

}  // namespace

TEST_CASE("lookup3 returns the checksums of the published examples") {
  // The examples of lookup3.c.
  CHECK(lookup3({}) == 0xdeadbeef);
  const std::string text = "Four score and seven years ago";
  CHECK(lookup3({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()}) == 0x17770551);
}

TEST_CASE("HDF5 input: offsets and sizes beyond the file or used twice are an error") {
  const Bytes bytes(100, 'x');
  Input input("x.h5", bytes);
  const auto refused = [&](const auto& call, const char* why) {
    CHECK_THROWS_WITH_AS(call(), doctest::Contains(why), DataError);
  };
  CHECK(input.claim(100, 0, "it").empty());
  refused([&] { input.claim(101, 0, "it"); }, "x.h5: is a damaged or truncated HDF5 file: it ends");
  refused([&] { input.claim(40, 61, "it"); }, "it ends beyond the file");
  refused([&] { input.claim(~0ull, 2, "it"); }, "it ends beyond the file");
  CHECK(input.claim(40, 60, "it").size() == 60);
  refused([&] { input.claim(0, 41, "it"); }, "it overlaps with other parts of the file");
  CHECK(input.claim(0, 40, "it").size() == 40);
  refused([&] { input.claim(0, 1, "it"); }, "it overlaps with other parts of the file");
  CHECK(input.peek(96, "it").size() == 4);
  refused([&] { input.peek(97, "it"); }, "it ends beyond the file");
  refused([&] { input.peek(101, "it"); }, "it ends beyond the file");
}

TEST_CASE("HDF5 input: texts without an end, or longer than a name or the file, are an error") {
  const auto refused = [&](const auto& call, const char* why) {
    CHECK_THROWS_WITH_AS(call(), doctest::Contains(why), DataError);
  };
  const Bytes names = Raw().text("ab").u8(0).text("cd");
  Input small("x.h5", names);
  CHECK(small.text_at(names, 0, "it") == "ab");
  CHECK(small.text_at(names, 1, "it") == "b");
  CHECK(small.text_at(names, 2, "it").empty());
  refused([&] { small.text_at(names, 3, "it"); }, "it has no end");
  refused([&] { small.text_at(names, 5, "it"); }, "it lies outside its heap");
  const Bytes longest = Raw().text(std::string(4096, 'x')).u8(0);
  CHECK(small.text_at(longest, 0, "it").size() == 4096);
  const Bytes longer = Raw().text(std::string(4097, 'x')).u8(0);
  refused([&] { small.text_at(longer, 0, "it"); }, "it has no end");

  // A copy takes its letters and a std::string off what a file of 10000 bytes may hold.
  const Bytes large(10000, 0);
  Input input("x.h5", large);
  refused([&] { input.copied(std::string(4097, 'x')); }, "a text of 4097 bytes is too long");
  CHECK(input.copied(std::string(4096, 'x')).size() == 4096);
  CHECK(input.copied(std::string(4096, 'x')).size() == 4096);
  const std::size_t left = 10000 - 2 * (4096 + sizeof(std::string)) - sizeof(std::string);
  refused([&] { input.copied(std::string(left + 1, 'x')); }, "its texts are longer than the file");
  CHECK(input.copied(std::string(left, 'x')).size() == left);
  refused([&] { input.copied(""); }, "its texts are longer than the file");
}

TEST_CASE("HDF5 superblocks: every version is read, and damaged ones are an error") {
  const Bytes old = superblock_v0(kRoot, 128);
  const auto rest = [&](const Bytes& start) { return Raw().add(start).add(header_v1({})); };
  const auto read = [&](const Bytes& file) { Reader("x.h5", file).children("/"); };
  const auto changed = [](Bytes bytes, std::size_t at, std::uint8_t byte) {
    bytes[at] = byte;
    return bytes;
  };
  // The root has no messages: a header of 16 bytes.
  const auto version_0 = [&](std::uint64_t end) { return rest(superblock_v0(96, end)); };
  const auto version_1 = [&](unsigned user_block) {
    Bytes bytes = superblock_v0(100, 116);
    bytes[8] = 1;
    const Bytes inserted = Raw().u16(32).u16(0);
    bytes.insert(bytes.begin() + 24, inserted.begin(), inserted.end());
    return rest(changed(bytes, 28, static_cast<std::uint8_t>(user_block)));
  };
  const auto version_2 = [&](unsigned version, unsigned user_block, std::uint64_t end) {
    return rest(Raw()
                    .text("\x89HDF\r\n\x1a\n")
                    .u8(version)
                    .u8(8)
                    .u8(8)
                    .u8(0)
                    .u64(user_block)
                    .u64(kUndefined)
                    .u64(end)
                    .u64(48)
                    .checksum());
  };
  CHECK_NOTHROW(read(version_0(112)));
  CHECK_NOTHROW(read(version_1(0)));
  CHECK_NOTHROW(read(version_2(2, 0, 64)));
  CHECK_NOTHROW(read(version_2(3, 0, 64)));
  const auto refused = [&](const Bytes& file, const char* why) {
    CAPTURE(why);
    CHECK_THROWS_WITH_AS(read(file), doctest::Contains(why), DataError);
  };
  refused(version_2(4, 0, 64), "holds superblock version 4, which Keras does not write");
  refused(version_1(1), "holds a user block");
  refused(version_2(2, 1, 64), "holds a user block");
  refused(version_0(113), "it has 112 bytes of 113");
  refused(version_2(2, 0, 65), "it has 64 bytes of 65");
  refused(changed(version_2(2, 0, 64), 11, 1), "the checksum of the superblock does not match");
  refused(changed(version_0(112), 0, 'x'), "the superblock is not at its address");
  for (const std::size_t at : {9, 10}) {
    Bytes file = version_2(2, 0, 64);
    file[at] = 4;
    const std::uint32_t sum = lookup3(View(file).first(44));
    std::memcpy(file.data() + 44, &sum, 4);
    refused(file, "holds addresses that are not 8 bytes");
  }
}

TEST_CASE("HDF5 attributes: known versions and kinds of texts are read, and others are an error") {
  for (const unsigned version : {1u, 2u, 3u}) {
    RawAttribute attribute = kTwo;
    attribute.version = version;
    for (const std::string name : {"a", "attribute"}) {
      attribute.name = name;
      CHECK(Reader("x.h5", file_with(attribute)).texts("d", name) == kTwoTexts);
    }
    attribute.name = "a";
    attribute.space = dataspace({});
    CHECK(texts(file_with(attribute)) == Texts{"ab"});
    attribute.space = dataspace({0});
    CHECK(texts(file_with(attribute)).empty());
    attribute.space = dataspace({3});
    refuses(file_with(attribute), "d@a is too short");
    attribute.space = dataspace({1ull << 40});
    refuses(file_with(attribute), "d@a is too short");
    attribute.space = kTwo.space;
    attribute.flags = 1;  // reserved in version 1, a shared type in others
    if (version == 1) CHECK(texts(file_with(attribute)) == kTwoTexts);
    if (version > 1) refuses(file_with(attribute), "an attribute whose type lies elsewhere");
  }
  for (const unsigned version : {0u, 4u}) {
    RawAttribute attribute = kTwo;
    attribute.version = version;
    refuses(file_with(attribute), "an attribute has no known version");
  }
  RawAttribute numbers = kTwo;
  numbers.type = float_type();
  refuses(file_with(numbers), "d@a is not a list of texts");
  numbers.space = dataspace({0});  // an empty list may be of any type
  CHECK(texts(file_with(numbers)).empty());
}

TEST_CASE("HDF5 attributes: lists in several parts are joined, and duplicate names are an error") {
  const auto piece = [](const std::string& name, const std::string& text) {
    return RawMessage{kAttribute,
                      to_bytes({text_type(1), dataspace({1}), Raw().text(text), 1, 0, name})};
  };
  const Bytes pieces = make_file({piece("a1", "y"), piece("a0", "x"), piece("a3", "z")}, {});
  CHECK(texts(pieces) == Texts{"x", "y"});
  CHECK(Reader("x.h5", pieces).has_texts("d", "a"));
  CHECK_FALSE(Reader("x.h5", pieces).has_texts("d", "b"));
  CHECK(texts(make_file({piece("a0", "x"), piece("a", "y")}, {})) == Texts{"y"});
  CHECK(texts(make_file({piece("b", "x")}, {})).empty());
  refuses(make_file({piece("a", "x"), piece("b", "x"), piece("a", "y")}, {}),
          "two attributes of an object are named 'a'");
}

TEST_CASE("HDF5 texts of variable length are read from their collection") {
  const auto file = [](const Bytes& references, std::uint64_t count, const Bytes& data) {
    return file_with({variable_type(), dataspace({count}), references}, data);
  };
  const Bytes heap = collection({"one", "and two", "12345678", std::string("x\0y", 3)}, 16);
  const Bytes all = Raw()
                        .add(reference(3, 1))
                        .add(reference(7, 2))
                        .add(reference(8, 3))
                        .add(reference(3, 4))
                        .add(reference(0, 9, kUndefined))
                        .add(reference(2, 1));
  CHECK(texts(file(all, 6, heap)) == Texts{"one", "and two", "12345678", "x", "", "on"});
  // Without free space, and with less of it than an object's head takes.
  for (const std::size_t free_bytes : {0, 8}) {
    CHECK(texts(file(reference(7, 2), 1, collection({"one", "and two"}, free_bytes))) ==
          Texts{"and two"});
  }
  const char* const missing = "a text is not at its address";
  refuses(file(reference(3, 5), 1, heap), missing);
  refuses(file(reference(4, 1), 1, heap), missing);
  refuses(file(reference(3, 1, kData + 8), 1, heap), "a collection of texts is not at its address");
  const auto changed = [&](std::size_t at, std::uint8_t byte) {
    Bytes bytes = heap;
    bytes[at] = byte;
    return file(reference(7, 2), 1, bytes);
  };
  CHECK(texts(changed(0, 'G')) == Texts{"and two"});
  refuses(changed(4, 2), "a collection of texts is not at its address");  // the version
  refuses(changed(8, 15), "a collection of texts is too short");
  refuses(changed(8, 16), missing);  // no objects
  refuses(changed(9, 1), "a collection of texts ends beyond the file");
  refuses(changed(24, 200), "a collection of texts is too short");  // the first object's size
  refuses(changed(16, 0), missing);                                 // what follows number 0 is free
  // A list of 16 bytes per element is not a list of texts unless its type is one.
  const auto type = [&](const Bytes& each) {
    return file_with({each, dataspace({1}), reference(3, 1)}, heap);
  };
  CHECK(texts(type(variable_type())) == Texts{"one"});
  CHECK(texts(type(variable_type(0x11))) == Texts{"one"});  // padded with zeros
  refuses(type(variable_type(0)), "d@a is not a list of texts");
  refuses(type(variable_type(1, 12)), "d@a is not a list of texts");
}

TEST_CASE("HDF5 object headers of version 1 are read with continuations and other messages") {
  const Bytes attribute = to_bytes(kTwo);
  const Bytes there = messages_v1({{kAttribute, attribute}});
  const Bytes on = Raw().u64(kData).u64(there.size());
  CHECK(texts(make_file({{0x12, Raw().zeros(8)}, {kContinuation, on}}, there)) == kTwoTexts);
  // Bytes that are not a whole message end a header.
  CHECK(texts(make_file({{kContinuation, Raw().u64(kData).u64(there.size() + 7)}},
                        Raw().add(there).zeros(7))) == kTwoTexts);
  refuses(make_file({{kContinuation, Raw().u64(kData).u64(there.size() - 1)}}, there),
          "an object header is too short");
  refuses(make_file({{kContinuation, Raw().u64(kData + 1).u64(there.size())}}, there),
          "an object header ends beyond the file");
  refuses(make_file({{kContinuation, Raw().u64(kData)}}, there), "a continuation is too short");
  Bytes header = header_v1({{kAttribute, attribute}});
  CHECK(texts(file_of_header(header)) == kTwoTexts);
  header[0] = 2;
  refuses(file_of_header(header), "an object header has no known version");
}

TEST_CASE("HDF5 object headers of version 2 are read with every flag and with continuations") {
  const Bytes attribute = to_bytes(kTwo);
  const Bytes plain = messages_v2({{0x12, Raw().zeros(3)}, {kAttribute, attribute}});
  const Bytes ordered = messages_v2({{kAttribute, attribute}}, true);
  for (const unsigned width : {0u, 1u, 2u, 3u}) {
    for (const unsigned flags : {0u, 16u, 32u, 48u}) {
      CAPTURE(width);
      CAPTURE(flags);
      CHECK(texts(file_of_header(header_v2(width + flags, plain))) == kTwoTexts);
      CHECK(texts(file_of_header(header_v2(width + flags + 4, ordered))) == kTwoTexts);
    }
  }
  // A gap of less than a message's head, which is longer with orders.
  CHECK(texts(file_of_header(header_v2(0, Raw().add(plain).zeros(3)))) == kTwoTexts);
  CHECK(texts(file_of_header(header_v2(4, Raw().add(ordered).zeros(5)))) == kTwoTexts);

  const auto continued = [&](const Bytes& piece, std::uint64_t size, bool has_order = false) {
    const Bytes on = messages_v2({{kContinuation, Raw().u64(kData).u64(size)}}, has_order);
    return file_of_header(header_v2(has_order ? 4 : 0, on), piece);
  };
  const Bytes piece = Raw().text("OCHK").add(plain).checksum();
  CHECK(texts(continued(piece, piece.size())) == kTwoTexts);
  const Bytes ordered_piece = Raw().text("OCHK").add(ordered).checksum();
  CHECK(texts(continued(ordered_piece, ordered_piece.size(), true)) == kTwoTexts);
  CHECK(texts(continued(Raw().text("OCHK").checksum(), 8)).empty());
  refuses(continued(piece, 7), "an object header is too short");
  refuses(continued(Raw().text("OCHX").add(plain).checksum(), piece.size()),
          "a continued object header is not at its address");
  refuses(continued(Raw().text("OCHK").add(plain).u32(1), piece.size()),
          "the checksum of an object header does not match");

  Bytes header = header_v2(0, plain);
  header.back() ^= 1;
  refuses(file_of_header(header), "the checksum of an object header does not match");
  header = header_v2(0, plain);
  header[4] = 3;
  refuses(file_of_header(header), "an object header has no known version");
  header[3] = 'X';
  refuses(file_of_header(header), "an object header is not at its address");
}

TEST_CASE("HDF5 object headers: more than 65536 messages are an error") {
  const auto file = [](std::size_t count) {
    const Bytes there = messages_v1(std::vector<RawMessage>(count, {kDatatype, {}}));
    return make_file({{kContinuation, Raw().u64(kData).u64(there.size())}}, there);
  };
  CHECK(texts(file(65536)).empty());
  refuses(file(65537), "an object has no end");
}

TEST_CASE("HDF5 links: every form is read, except soft and external links") {
  const auto children = [](const Bytes& body) {
    return Reader("x.h5", file_of_root({{kLink, body}})).children("/").datasets;
  };
  const auto form = [](unsigned flags, unsigned type = 0) {
    Raw raw;
    raw.u8(1).u8(flags);
    if (flags & 8) raw.u8(type);
    if (flags & 4) raw.u64(3);
    if (flags & 16) raw.u8(1);
    const unsigned width = 1u << (flags & 3);
    raw.u8(4).zeros(width - 1).text("name").u64(kObject);
    return Bytes(raw);
  };
  for (unsigned flags = 0; flags < 32; ++flags) {
    CAPTURE(flags);
    CHECK(children(form(flags)) == Texts{"name"});
  }
  for (const unsigned type : {1u, 64u}) {
    CHECK_THROWS_WITH_AS(children(form(8, type)), doctest::Contains("a soft or external link"),
                         DataError);
  }
  Bytes other = form(0);
  other[0] = 2;
  CHECK_THROWS_WITH_AS(children(other), doctest::Contains("a link has no known version"),
                       DataError);
  CHECK_THROWS_WITH_AS(Reader("x.h5", file_of_root({{kLink, link("b", kObject)},
                                                    {kLink, link("a", kObject)},
                                                    {kLink, link("b", kObject)}})),
                       doctest::Contains("two objects of a group are named 'b'"), DataError);
}

TEST_CASE("HDF5 links and attributes: fractal heaps are an error") {
  const auto read = [](unsigned type, unsigned flags, std::uint64_t address) {
    const bool of_links = type == kLinkInfo;
    Raw raw;
    raw.u8(0).u8(flags);
    if (flags & 1) raw.zeros(of_links ? 8 : 2);
    raw.u64(address).u64(address);
    if (flags & 2) raw.u64(address);
    Reader("x.h5", file_of_root({{type, raw}})).children("/");
  };
  for (unsigned flags = 0; flags < 4; ++flags) {
    CAPTURE(flags);
    for (const unsigned type : {kLinkInfo, kAttributeInfo}) {
      CHECK_NOTHROW(read(type, flags, kUndefined));
      CHECK_THROWS_WITH_AS(
          read(type, flags, 96),
          doctest::Contains(type == kLinkInfo
                                ? "a group in the newer layout for many objects (a fractal heap)"
                                : "attributes in the newer layout for many (a fractal heap)"),
          DataError);
    }
  }
}

TEST_CASE("HDF5 symbol tables: trees of several levels are read, and damaged ones are an error") {
  // At kData: the heap, 64 bytes; the names, 64; nodes of the tree and of symbols, 128 each.
  constexpr std::uint64_t kNodes = kData + 128;
  const auto heap = [](std::uint64_t size) {
    return Raw().text("HEAP").u32(0).u64(size).u64(1).u64(kData + 64).pad_to(64);
  };
  const auto node = [](unsigned level, const std::vector<std::uint64_t>& children,
                       unsigned type = 0) {
    Raw raw;
    raw.text("TREE").u8(type).u8(level).u16(children.size()).u64(kUndefined).u64(kUndefined);
    raw.u64(0);
    for (const std::uint64_t child : children) raw.u64(kNodes + 128 * child).u64(0);
    return Bytes(raw.pad_to(128));
  };
  struct Symbol {
    std::uint64_t name;
    unsigned kind = 0;
  };
  const auto symbols = [](const std::vector<Symbol>& all) {
    Raw raw;
    raw.text("SNOD").u8(1).u8(0).u16(all.size());
    for (const Symbol& each : all) raw.u64(each.name).u64(kObject).u32(each.kind).zeros(20);
    return Bytes(raw.pad_to(128));
  };
  const auto children = [&](const std::vector<Bytes>& nodes, const Bytes& first) {
    Raw data;
    data.add(first).text("a").u8(0).text("bc").u8(0).text("d").zeros(58);
    for (const Bytes& each : nodes) data.add(each);
    const Bytes table = Raw().u64(kNodes).u64(kData);
    return Reader("x.h5", file_of_root({{kSymbolTable, table}}, data)).children("/").datasets;
  };
  const Bytes two = symbols({{5}, {0}}), third = symbols({{2}});
  CHECK(children({node(0, {1, 2}), two, third}, heap(64)) == Texts{"a", "bc", "d"});
  CHECK(children({node(1, {1, 2}), node(0, {3}), node(0, {4}), two, third}, heap(64)) ==
        Texts{"a", "bc", "d"});
  CHECK(children({node(0, {})}, heap(64)).empty());
  const auto refused = [&](const std::vector<Bytes>& nodes, const char* why,
                           std::uint64_t names = 64) {
    CAPTURE(why);
    CHECK_THROWS_WITH_AS(children(nodes, heap(names)), doctest::Contains(why), DataError);
  };
  refused({node(2, {1}), node(0, {2}), two}, "the tree of a group has no order");
  refused({node(1, {1}), node(1, {2}), two}, "the tree of a group has no order");
  refused({node(0, {1}, 1), two}, "the tree of a group is of another kind");
  refused({node(0, {1}), node(0, {})}, "a symbol node is not at its address");
  refused({two}, "the tree of a group is not at its address");
  refused({node(0, {1}), symbols({{0}, {0}})}, "two objects of a group are named 'a'");
  refused({node(0, {1}), symbols({{2, 2}})}, "holds the soft link 'bc'");
  refused({node(0, {1}), symbols({{64}})}, "the name of an object lies outside its heap");
  refused({node(0, {1}), symbols({{5}})}, "the name of an object has no end", 6);
  CHECK(children({node(0, {1}), symbols({{2, 1}})}, heap(64)) == Texts{"bc"});  // a cached group
  for (const std::size_t at : {0, 4}) {
    Bytes other = heap(64);
    other[at] = 1;
    CHECK_THROWS_WITH_AS(children({node(0, {})}, other),
                         doctest::Contains("a heap of names is not at its address"), DataError);
  }
}

TEST_CASE("HDF5 paths: additional slashes lead to the same object, and a missing one is named") {
  const Bytes file = make_file({{kAttribute, to_bytes(kTwo)}, {kLayout, {}}}, {});
  Reader reader("x.h5", file);
  for (const char* path : {"d", "/d", "d/", "//d//"}) {
    CHECK(reader.texts(path, "a") == kTwoTexts);
    CHECK(reader.exists(path));
    CHECK(reader.address(path) == kObject);
  }
  CHECK(reader.address("/") == kRoot);
  CHECK(reader.address("") == kRoot);
  for (const char* path : {"e", "c", "d/e", "dd"}) {
    CHECK_FALSE(reader.exists(path));
    CHECK_THROWS_WITH_AS(reader.address(path),
                         doctest::Contains(concat("has no '", path, "'").c_str()), DataError);
  }
  CHECK(reader.children("/").groups.empty());
  CHECK(reader.children("/").datasets == Texts{"d"});
}

}  // namespace trainer::checkpoint::hdf5::raw
