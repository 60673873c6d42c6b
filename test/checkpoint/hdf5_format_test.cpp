// Datasets and texts in every form that the HDF5 specification has and the reader takes, and what
// it rejects.
#include <doctest/doctest.h>
#include <libdeflate.h>

#include <algorithm>

#include "checkpoint/hdf5/reader.h"
#include "checkpoint/hdf5_raw.h"

namespace trainer::checkpoint::hdf5::raw {
namespace {

const std::vector<float> kFour{1, -2, 3.5f, 1024};

Tensor read(const Bytes& file) { return Reader("x.h5", file).tensor("d", "t"); }

Tensor read(const std::vector<RawMessage>& object, const Bytes& data) {
  return read(make_file(object, data));
}

void refuses(const std::vector<RawMessage>& object, const Bytes& data, const char* why) {
  CAPTURE(why);
  CHECK_THROWS_WITH_AS(read(object, data), doctest::Contains(why), DataError);
}

// A contiguous dataset of one dimension.
std::vector<float> load_values(const Bytes& type, const Bytes& data, std::uint64_t count) {
  return read({{kDataspace, dataspace({count})},
               {kDatatype, type},
               {kLayout, contiguous(kData, data.size())}},
              data)
      .values;
}

// Four floats behind a layout, a shape or filters of the caller's.
std::vector<RawMessage> four_floats(const Bytes& layout, const Bytes& space = dataspace({4})) {
  return {{kDataspace, space}, {kDatatype, float_type()}, {kLayout, layout}};
}

std::vector<RawMessage> with_filters(std::vector<RawMessage> object, const Bytes& filters) {
  object.push_back({kFilters, filters});
  return object;
}

Bytes chunked(std::uint64_t tree, const std::vector<std::uint32_t>& box) {
  Raw raw;
  raw.u8(3).u8(2).u8(box.size() + 1).u64(tree);
  for (const std::uint32_t extent : box) raw.u32(extent);
  return raw.u32(4);
}

struct RawChunk {
  std::vector<std::uint64_t> corner;
  std::uint64_t size, address;
  std::uint64_t skipped_filters = 0;
};

// A node of the tree of a chunked dataset; above the leaves `address` is that of a node.
Bytes tree(int level, const std::vector<RawChunk>& children, int type = 1) {
  Raw raw;
  raw.text("TREE").u8(static_cast<std::uint64_t>(type)).u8(static_cast<std::uint64_t>(level));
  raw.u16(children.size()).u64(kUndefined).u64(kUndefined);
  for (const RawChunk& child : children) {
    raw.u32(child.size).u32(child.skipped_filters);
    for (const std::uint64_t at : child.corner) raw.u64(at);
    raw.u64(0).u64(child.address);
  }
  return raw.zeros(24);
}

// Where the only chunk of one_chunk() lies, behind its tree.
constexpr std::uint64_t kChunk = kData + 128;

Bytes one_chunk(const Bytes& stored, std::uint64_t skipped_filters = 0) {
  return Raw()
      .add(tree(0, {{{0}, stored.size(), kChunk, skipped_filters}}))
      .pad_to(128)
      .add(stored);
}

std::vector<float> read_filtered(const Bytes& filters, const Bytes& stored,
                                 std::uint64_t skipped_filters = 0) {
  return read(with_filters(four_floats(chunked(kData, {4})), filters),
              one_chunk(stored, skipped_filters))
      .values;
}

// Byte k of every element, for each k.
Bytes shuffled(const Bytes& bytes, std::size_t width = 4) {
  Bytes result;
  const std::size_t whole = bytes.size() / width * width;
  for (std::size_t byte = 0; byte < width; ++byte) {
    for (std::size_t i = byte; i < whole; i += width) result.push_back(bytes[i]);
  }
  result.insert(result.end(), bytes.begin() + static_cast<std::ptrdiff_t>(whole), bytes.end());
  return result;
}

// A zlib stream of one stored block.
Bytes deflated(const Bytes& bytes) {
  std::uint32_t a = 1, b = 0;
  for (const std::uint8_t byte : bytes) {
    a = (a + byte) % 65521;
    b = (b + a) % 65521;
  }
  Raw raw;
  raw.u8(0x78).u8(1).u8(1).u16(bytes.size()).u16(~bytes.size()).add(bytes);
  return raw.u8(b >> 8).u8(b).u8(a >> 8).u8(a);
}

Bytes filters_v1(const std::vector<Bytes>& filters) {
  Raw raw;
  raw.u8(1).u8(filters.size()).zeros(6);
  for (const Bytes& filter : filters) raw.add(filter);
  return raw;
}

Bytes filters_v2(const std::vector<Bytes>& filters) {
  Raw raw;
  raw.u8(2).u8(filters.size());
  for (const Bytes& filter : filters) raw.add(filter);
  return raw;
}

// With `values` client values.
Bytes filter_v2(unsigned id, unsigned values) {
  return Raw().u16(id).u16(0).u16(values).zeros(4 * values);
}

// Name and values are padded to multiples of 8 bytes.
Bytes filter_v1(unsigned id, std::string_view name, unsigned values) {
  Raw raw;
  raw.u16(id).u16(name.size()).u16(0).u16(values).text(name).pad();
  return raw.zeros(4 * values).pad();
}

constexpr unsigned kDeflate = 1, kShuffle = 2;

}  // namespace

TEST_CASE("HDF5 integers: every width, sign and byte order gives the same numbers") {
  struct Row {
    Bytes bytes;
    float is_unsigned, is_signed, is_big_endian;
  };
  // 0x81 is -127, 0x8102 -32510; 0x80000004 is rounded to a float.
  for (const Row& row : {Row{{0x81}, 129, -127, 129}, Row{{0x02, 0x81}, 33026, -32510, 641},
                         Row{{0x04, 0, 0, 0x80}, 0x1p31f, -0x1p31f, 0x04000080},
                         Row{{0, 0, 0, 0, 0, 0, 1, 0x80}, 0x8.001p60f, -0x7.fffp60f, 384}}) {
    const auto width = static_cast<unsigned>(row.bytes.size());
    CAPTURE(width);
    CHECK(load_values(integer_type(width, false, false), row.bytes, 1)[0] == row.is_unsigned);
    CHECK(load_values(integer_type(width, true, false), row.bytes, 1)[0] == row.is_signed);
    CHECK(load_values(integer_type(width, false, true), row.bytes, 1)[0] == row.is_big_endian);
  }
  for (const unsigned width : {3u, 6u, 16u}) {
    refuses({{kDataspace, dataspace({1})},
             {kDatatype, integer_type(width, false, false)},
             {kLayout, contiguous(kData, 16)}},
            Raw().zeros(16), "'d' holds no numbers");
  }
}

TEST_CASE(
    "HDF5 floats: half, bfloat16, single and double are read in both byte orders, others "
    "rejected") {
  const FloatType half{2, 0, 16, 10, 5, 0, 10, 15}, brain{2, 0, 16, 7, 8, 0, 7, 127}, single{},
      twice{8, 0, 64, 52, 11, 0, 52, 1023};
  struct Row {
    FloatType type;
    Bytes bytes;  // of -1.5
  };
  for (const Row& row :
       {Row{half, {0x00, 0xbe}}, Row{brain, {0xc0, 0xbf}}, Row{single, {0, 0, 0xc0, 0xbf}},
        Row{twice, {0, 0, 0, 0, 0, 0, 0xf8, 0xbf}}}) {
    CAPTURE(row.type.exponent_bits);
    CHECK(load_values(float_type(row.type), row.bytes, 1) == std::vector<float>{-1.5f});
    FloatType big = row.type;
    big.big_endian = true;
    const Bytes reversed(row.bytes.rbegin(), row.bytes.rend());
    CHECK(load_values(float_type(big), reversed, 1) == std::vector<float>{-1.5f});

    for (unsigned FloatType::*field :
         {&FloatType::bytes, &FloatType::offset, &FloatType::precision, &FloatType::exponent_at,
          &FloatType::exponent_bits, &FloatType::fraction_at, &FloatType::fraction_bits,
          &FloatType::bias}) {
      FloatType other = row.type;
      other.*field += 1;
      CHECK_THROWS_WITH_AS(load_values(float_type(other), Raw().zeros(16), 1),
                           doctest::Contains("is none of IEEE's"), DataError);
    }
  }
}

TEST_CASE("HDF5 datatypes: known versions and classes are read, and others are an error") {
  const auto changed = [](std::size_t at, std::uint8_t byte) {
    Bytes type = float_type();
    type[at] = byte;
    return type;
  };
  const Bytes data = Raw().floats(kFour);
  for (const std::uint8_t version : {1, 2, 3, 4}) {
    CHECK(load_values(changed(0, static_cast<std::uint8_t>(version << 4 | 1)), data, 4) == kFour);
  }
  for (const std::uint8_t head : {0x01, 0x51}) {
    CHECK_THROWS_WITH_AS(load_values(changed(0, head), data, 4),
                         doctest::Contains("a datatype has no known version"), DataError);
  }
  CHECK_THROWS_WITH_AS(load_values(changed(4, 0), data, 4),
                       doctest::Contains("a datatype has no size"), DataError);
  // Times, texts, bits, opaque, compounds, references, enumerations, texts of variable length,
  // arrays.
  for (const std::uint8_t head : {0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x19, 0x1a}) {
    CHECK_THROWS_WITH_AS(load_values(changed(0, head), data, 4),
                         doctest::Contains("'d' holds no numbers"), DataError);
  }
}

TEST_CASE("HDF5 dataspaces: valid versions, ranks and sizes are read, and others are an error") {
  const Bytes data = Raw().floats(kFour);
  const Bytes layout = contiguous(kData, data.size());
  const auto shape_of = [&](const Bytes& space) { return read(four_floats(layout, space), data); };
  CHECK(shape_of(dataspace({2, 2})).shape == Shape{2, 2});
  CHECK(shape_of(dataspace({2, 2})).values == kFour);
  CHECK(shape_of(dataspace({})).shape == Shape{});
  CHECK(shape_of(dataspace({})).values == std::vector<float>{1});
  CHECK(shape_of(dataspace({0, 5})).values.empty());
  const auto version_2 = [](unsigned kind, std::vector<std::uint64_t> extents) {
    Raw raw;
    raw.u8(2).u8(extents.size()).u8(0).u8(kind);
    for (const std::uint64_t extent : extents) raw.u64(extent);
    return Bytes(raw);
  };
  CHECK(shape_of(version_2(0, {})).values == std::vector<float>{1});
  CHECK(shape_of(version_2(1, {4})).values == kFour);
  // Version 1 has no kind there.
  CHECK(shape_of(Raw().u8(1).u8(1).u8(0).u8(2).u32(0).u64(4)).values == kFour);

  const auto refused = [&](const Bytes& space, const char* why) {
    refuses(four_floats(layout, space), data, why);
  };
  refused(version_2(2, {}), "'d' holds no numbers");  // the null dataspace
  for (const unsigned version : {0u, 3u}) {
    refused(Raw().u8(version).u8(1).zeros(6).u64(4), "a dataspace has no known version");
  }
  refused(dataspace(std::vector<std::uint64_t>(33, 1)), "a dataspace of rank 33");
  CHECK(shape_of(dataspace(std::vector<std::uint64_t>(32, 1))).values == std::vector<float>{1});
  const std::uint64_t most = std::uint64_t{1} << 33;
  refused(dataspace({most}), "claims 8589934592 numbers, but holds 16 bytes");
  refused(dataspace({most / 2, 2}), "claims 8589934592 numbers");
  refused(dataspace({most + 1}), "'d' is impossibly large");
  refused(dataspace({most / 2, 3}), "'d' is impossibly large");
  refused(dataspace({0, most + 1}), "'d' is impossibly large");
  refused(Raw().u8(1).u8(2).zeros(6).u64(4), "a dataspace is too short");
}

TEST_CASE(
    "HDF5 layouts: contiguous and compact are read in versions 3 and 4, and others are an error") {
  const Bytes data = Raw().floats(kFour);
  for (const unsigned version : {3u, 4u}) {
    CHECK(read(four_floats(Raw().u8(version).u8(1).u64(kData).u64(16)), data).values == kFour);
    CHECK(read(four_floats(Raw().u8(version).u8(0).u16(16).add(data)), {}).values == kFour);
  }
  // More bytes than the elements take.
  CHECK(read(four_floats(contiguous(kData, 20)), Raw().floats(kFour).u32(0)).values == kFour);
  const auto refused = [&](const Bytes& layout, const char* why) {
    refuses(four_floats(layout), data, why);
  };
  refused(contiguous(kData, 15), "'d' claims 4 numbers, but holds 15 bytes");
  refused(contiguous(kUndefined, 16), "'d' claims 4 numbers, but holds 0 bytes");
  refused(contiguous(kData + 4, 16), "a dataset ends beyond the file");
  refused(Raw().u8(3).u8(0).u16(15).add(data), "'d' claims 4 numbers, but holds 15 bytes");
  refused(Raw().u8(3).u8(0).u16(16).zeros(8), "the layout of a dataset is too short");
  refused(Raw().u8(2).u8(1).u64(kData).u64(16), "a dataset in layout 1 of version 2");
  refused(Raw().u8(5).u8(1).u64(kData).u64(16), "a dataset in layout 1 of version 5");
  refused(Raw().u8(4).u8(2).u64(kData).u64(16), "a dataset in layout 2 of version 4");
  refused(Raw().u8(4).u8(3).u64(kData).u64(16), "a dataset in layout 3 of version 4");
  refused(Raw().u8(3).u8(3).u64(kData).u64(16), "a dataset in layout 3 of version 3");
  // A dataset without elements needs no bytes.
  CHECK(read(four_floats(contiguous(kUndefined, 0), dataspace({0})), {}).shape == Shape{0});
}

TEST_CASE("HDF5 datasets: a message that is missing or shared is an error") {
  const Bytes data = Raw().floats(kFour);
  const auto sound = with_filters(four_floats(chunked(kData, {4})), filters_v2({}));
  CHECK(read(sound, one_chunk(data)).values == kFour);
  for (std::size_t i = 0; i < sound.size(); ++i) {
    CAPTURE(i);
    std::vector<RawMessage> shared = sound;
    shared[i].flags = kSharedFlag;
    refuses(shared, one_chunk(data),
            i == 3 ? "a dataset whose filters lie elsewhere"
                   : "a dataset whose type or shape lies elsewhere");
    shared[i].flags = 1;  // constant
    CHECK(read(shared, one_chunk(data)).values == kFour);
    if (i == 3) continue;
    std::vector<RawMessage> missing = sound;
    missing.erase(missing.begin() + static_cast<std::ptrdiff_t>(i));
    refuses(missing, one_chunk(data), "'d' is not a whole dataset");
  }
  std::vector<RawMessage> elsewhere = sound;
  elsewhere.push_back({kExternalFiles, {}});
  refuses(elsewhere, one_chunk(data), "a dataset in another file");
}

TEST_CASE("HDF5 filters: valid versions, names and values are read, and others are an error") {
  const Bytes plain = Raw().floats(kFour);
  const Bytes both = deflated(shuffled(plain));
  CHECK(read_filtered(filters_v1({}), plain) == kFour);
  CHECK(read_filtered(filters_v2({}), plain) == kFour);
  for (const unsigned values : {0u, 1u, 2u, 3u}) {
    for (const std::string_view name : {"", "f", "shuffle", "eightltr", "nine ltrs"}) {
      CAPTURE(values);
      CAPTURE(name);
      CHECK(read_filtered(filters_v1({filter_v1(kShuffle, name, values),
                                      filter_v1(kDeflate, "deflate", values)}),
                          both) == kFour);
    }
    CHECK(read_filtered(filters_v2({filter_v2(kShuffle, values), filter_v2(kDeflate, values)}),
                        both) == kFour);
  }
  const auto refused = [&](const Bytes& filters, const char* why) {
    CHECK_THROWS_WITH_AS(read_filtered(filters, plain), doctest::Contains(why), DataError);
  };
  refused(Raw().u8(0).u8(0).zeros(6), "a list of filters has no known version");
  refused(Raw().u8(3).u8(0).zeros(6), "a list of filters has no known version");
  refused(filters_v1({filter_v1(3, "fletcher", 0)}), "the compression filter 3,");
  refused(filters_v2({filter_v2(0, 0)}), "the compression filter 0,");
  refused(filters_v2({Raw().u16(32000).u16(4).u16(0).u16(0).text("lzf")}),
          "the compression filter 32000,");
  refused(filters_v2({Raw().u16(kShuffle).u16(0)}), "a list of filters is too short");
  refuses(with_filters(four_floats(contiguous(kData, 16)), filters_v2({filter_v2(kShuffle, 1)})),
          plain, "'d' has filters and no chunks");
}

TEST_CASE("HDF5 filters are undone from the last to the first, except those that a chunk skips") {
  const Bytes plain = Raw().floats(kFour);
  const Bytes shuffle = filter_v2(kShuffle, 0), deflate = filter_v2(kDeflate, 0);
  CHECK(read_filtered(filters_v2({shuffle}), shuffled(plain)) == kFour);
  CHECK(read_filtered(filters_v2({deflate}), deflated(plain)) == kFour);
  // 27 bytes are shuffled as 6 elements, and 3 bytes that stay at the end.
  REQUIRE(deflated(plain).size() == 27);
  CHECK(read_filtered(filters_v2({deflate, shuffle}), shuffled(deflated(plain))) == kFour);
  CHECK(read_filtered(filters_v2({deflate, deflate}), deflated(plain), 1) == kFour);
  CHECK(read_filtered(filters_v2({shuffle, deflate}), shuffled(plain), 2) == kFour);
  CHECK(read_filtered(filters_v2({shuffle, deflate}), deflated(plain), 1) == kFour);
  CHECK(read_filtered(filters_v2({shuffle, deflate}), plain, 3) == kFour);
  // The mask has 32 bits: of 33 filters the last is never skipped. Two shuffles of 4 by 4 bytes
  // undo each other.
  CHECK(read_filtered(filters_v2(std::vector<Bytes>(33, shuffle)), plain, 1) == kFour);
  CHECK(read_filtered(filters_v2(std::vector<Bytes>(33, shuffle)), shuffled(plain)) == kFour);

  const auto refused = [&](const std::vector<Bytes>& filters, const Bytes& stored,
                           const char* why) {
    CHECK_THROWS_WITH_AS(read_filtered(filters_v2(filters), stored), doctest::Contains(why),
                         DataError);
  };
  refused({deflate}, shuffled(deflated(plain)), "'d' cannot be decompressed");
  refused({deflate}, deflated(Raw().floats(kFour).u32(0)), "'d' cannot be decompressed");
  refused({deflate}, deflated(Raw().zeros(12)), "'d' cannot be decompressed");
  refused({shuffle}, Raw().zeros(20), "'d' has an impossible chunk size");
  refused({}, Raw().zeros(20), "'d' has an impossible chunk size");
}

TEST_CASE("HDF5 chunks: each value of two dimensions in a tree of two levels is in its place") {
  // 3 x 5 elements in boxes of 2 x 3, which reach beyond both ends; element (y, x) is 10 y + x.
  Raw raw;
  std::vector<RawChunk> chunks;
  raw.zeros(1024);
  for (const std::uint64_t y : {0, 2}) {
    for (const std::uint64_t x : {0, 3}) {
      chunks.push_back({{y, x}, 24, kData + raw.size()});
      std::vector<float> values;
      for (std::uint64_t i = 0; i < 6; ++i) {
        values.push_back(static_cast<float>(10 * (y + i / 3) + x + i % 3));
      }
      raw.floats(values);
    }
  }
  std::vector<float> expected;
  for (const int y : {0, 10, 20}) {
    for (int x = 0; x < 5; ++x) expected.push_back(static_cast<float>(y + x));
  }
  const std::vector<RawMessage> object = four_floats(chunked(kData, {2, 3}), dataspace({3, 5}));
  const auto place_nodes = [&](const std::vector<Bytes>& nodes) {  // 256 bytes apart
    Raw whole;
    for (const Bytes& node : nodes) whole.add(node).pad_to((whole.size() + 255) / 256 * 256);
    whole.pad_to(1024);
    const Bytes& all = raw;
    return Bytes(whole.add(Bytes(all.begin() + 1024, all.end())));
  };
  const auto with = [&](std::size_t i, const RawChunk& chunk) {
    std::vector<RawChunk> changed = chunks;
    changed[i] = chunk;
    return place_nodes({tree(0, changed)});
  };
  const std::vector<RawChunk> halves{{{0, 0}, 0, kData + 256}, {{2, 0}, 0, kData + 512}};
  const Bytes upper = tree(0, {chunks[1], chunks[0]}), lower = tree(0, {chunks[2], chunks[3]});
  CHECK(read(object, place_nodes({tree(0, chunks)})).values == expected);
  CHECK(read(object, place_nodes({tree(1, halves), upper, lower})).values == expected);
  const RawChunk top{{0, 0}, 0, kData + 256};
  CHECK(read(object, place_nodes({tree(2, {top}),
                                  tree(1, {{{0, 0}, 0, kData + 512}, {{2, 0}, 0, kData + 768}}),
                                  upper, lower}))
            .values == expected);

  refuses(object, place_nodes({tree(2, halves), upper, lower}),
          "the tree of a dataset has no order");
  refuses(object, place_nodes({tree(1, {top, halves[1]}), tree(1, {halves[1]}), lower}),
          "the tree of a dataset has no order");
  refuses(object, place_nodes({tree(0, chunks, 0)}), "the tree of a dataset is of another kind");
  refuses(object, place_nodes({Raw().text("TRIE").zeros(20)}),
          "the tree of a dataset is not at its address");
  refuses(object, place_nodes({tree(0, {chunks[0], chunks[1], chunks[2]})}),
          "'d' has 3 of its 4 chunks");
  refuses(object, with(3, chunks[2]), "'d' has an impossible chunk");
  const std::uint64_t last = chunks[3].address;
  refuses(object, with(3, {{1, 3}, 24, last}), "'d' has an impossible chunk");
  refuses(object, with(3, {{2, 4}, 24, last}), "'d' has an impossible chunk");
  refuses(object, with(3, {{4, 3}, 24, last}), "'d' has an impossible chunk");
  refuses(object, with(3, {{2, 6}, 24, last}), "'d' has an impossible chunk");
  refuses(object, with(3, {{2, 3}, 20, last}), "'d' has an impossible chunk size");
  refuses(object, with(3, {{2, 3}, 24, last + 1}), "a chunk ends beyond the file");
  // Boxes that start where the dataset ends.
  refuses(four_floats(chunked(kData, {4}), dataspace({4})), one_chunk(Raw().zeros(12)),
          "'d' claims 4 numbers, but holds 12 bytes");
}

TEST_CASE("HDF5 chunks: equal numbers that are compressed more than a hundredfold are read") {
  const std::vector<float> values(100000, 2);
  const Bytes bytes = Raw().floats(values);
  Bytes packed(bytes.size());
  libdeflate_compressor* compressor = libdeflate_alloc_compressor(9);
  packed.resize(libdeflate_zlib_compress(compressor, bytes.data(), bytes.size(), packed.data(),
                                         packed.size()));
  libdeflate_free_compressor(compressor);
  REQUIRE(packed.size() < 1000);
  const auto object = with_filters(four_floats(chunked(kData, {100000}), dataspace({100000})),
                                   filters_v2({filter_v2(kDeflate, 0)}));
  CHECK(read(object, one_chunk(packed)).values == values);
}

TEST_CASE("HDF5 chunks: valid ranks and sizes are read, and others are an error") {
  const Bytes stored = one_chunk(Raw().floats(kFour));
  const auto refused = [&](const std::vector<std::uint32_t>& box,
                           const std::vector<std::uint64_t>& extents, const char* why) {
    refuses(four_floats(chunked(kData, box), dataspace(extents)), stored, why);
  };
  refused({4, 1}, {4}, "'d' has chunks of another rank");
  refused({}, {4}, "'d' has chunks of another rank");
  refused({}, {}, "'d' has chunks of another rank");
  refused({0}, {4}, "'d' has an impossible chunk size");
  const std::uint32_t most = 0xffffffff;
  refused({most, most, most}, {4, 1, 1}, "'d' has an impossible chunk size");  // by extents
  refused({most, 0x80000000}, {4, 1}, "'d' has an impossible chunk size");     // by bytes
  refused({4129}, {4}, "'d' has an impossible chunk size");
  refuses(four_floats(chunked(kUndefined, {4})), stored, "'d' claims 4 numbers, but holds 0 bytes");
}

}  // namespace trainer::checkpoint::hdf5::raw
