#include "base/formats/zip.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "base/files/files.h"

namespace trainer {
namespace {

// Written by Python's zipfile: "letters", 100 times a, deflated, and "word", "stored", as it is.
constexpr std::string_view kArchive =
    "504b030414000000080000002100647a70af0600000064000000070000006c6574746572734b4ca43d000050"
    "4b0304140000000000000021000bf94356060000000600000004000000776f726473746f726564504b010214"
    "0314000000080000002100647a70af06000000640000000700000000000000000000008001000000006c6574"
    "74657273504b01021403140000000000000021000bf943560600000006000000040000000000000000000000"
    "80012b000000776f7264504b0506000000000200020067000000530000000000";
// Where the second member and the directory begin.
constexpr std::size_t kWordHeader = 0x2B, kDirectory = 0x53;

Bytes archive() {
  Bytes bytes;
  for (std::size_t i = 0; i < kArchive.size(); i += 2) {
    const std::string digits(kArchive.substr(i, 2));
    bytes.push_back(static_cast<std::uint8_t>(std::stoi(digits, nullptr, 16)));
  }
  return bytes;
}

// All members, unpacked.
std::vector<std::string> contents(const Bytes& bytes) {
  std::vector<std::string> contents;
  for (const ZipMember& member : zip_members(bytes, "x.zip")) {
    Bytes to(zip_size(bytes, member, "x.zip"));
    unzip(bytes, member, to, "x.zip");
    contents.emplace_back(to.begin(), to.end());
  }
  return contents;
}

const std::string kLetters(100, 'a'), kWord = "stored";

void add(Bytes& to, std::uint64_t value, int size) {
  for (int i = 0; i < size; ++i) to.push_back(static_cast<std::uint8_t>(value >> (8 * i)));
}

// What of a member's record of the directory is in its zip64 field, instead of in 32 bits.
struct In64 {
  bool size, packed, header;
};

// A record of the directory with a comment and two extra fields, the second that of zip64.
void add_record(Bytes& to, const ZipMember& member, In64 in_64) {
  Bytes field;
  if (in_64.size) add(field, member.size, 8);
  if (in_64.packed) add(field, member.packed, 8);
  if (in_64.header) add(field, member.header, 8);
  constexpr std::uint64_t kIn64 = 0xFFFFFFFF;
  add(to, 0x02014b50, 4);
  add(to, 45 | 45 << 16, 6);  // versions, flags
  add(to, member.method, 2);
  add(to, 0, 4);  // time and date
  add(to, member.crc, 4);
  add(to, in_64.packed ? kIn64 : member.packed, 4);
  add(to, in_64.size ? kIn64 : member.size, 4);
  add(to, member.name.size(), 2);
  add(to, 4 + 5 + 4 + field.size(), 2);
  add(to, 3, 2);  // of the comment
  add(to, 0, 8);  // disk, attributes
  add(to, in_64.header ? kIn64 : member.header, 4);
  to.insert(to.end(), member.name.begin(), member.name.end());
  add(to, 0x5455, 2);  // times
  add(to, 5, 2);
  add(to, 0x0101010101, 5);
  add(to, 1, 2);
  add(to, field.size(), 2);
  to.insert(to.end(), field.begin(), field.end());
  to.insert(to.end(), {'o', 'l', 'd'});
}

// archive() with a directory for large files; APPNOTE.TXT 6.3.10 of PKWARE, 4.3.14 to 4.5.3.
Bytes large_archive(In64 in_64, bool end_in_64) {
  Bytes bytes = archive();
  const std::vector<ZipMember> members = zip_members(bytes, "x.zip");
  bytes.resize(kDirectory);
  for (const ZipMember& member : members) add_record(bytes, member, in_64);
  const std::size_t end = bytes.size();
  if (end_in_64) {
    add(bytes, 0x06064b50, 4);
    add(bytes, 44, 8);
    add(bytes, 0, 4);  // versions
    add(bytes, 0, 8);  // disks
    add(bytes, members.size(), 8);
    add(bytes, members.size(), 8);
    add(bytes, end - kDirectory, 8);
    add(bytes, kDirectory, 8);
    add(bytes, 0x07064b50, 4);
    add(bytes, 0, 4);
    add(bytes, end, 8);
    add(bytes, 1, 4);
  }
  add(bytes, 0x06054b50, 4);
  add(bytes, 0, 4);
  add(bytes, members.size() | members.size() << 16, 4);
  add(bytes, end - kDirectory, 4);
  add(bytes, end_in_64 ? 0xFFFFFFFF : kDirectory, 4);
  add(bytes, 0, 2);
  return bytes;
}

// Reads the members of an archive that was written to a file.
std::vector<ZipMember> members_of_file(const Bytes& bytes) {
  const TemporaryFolder folder;
  const Path path = folder.path() / "x.zip";
  write_file_atomic(path, std::span<const std::uint8_t>(bytes));
  return zip_members(RandomAccessFile(path), "x.zip");
}

}  // namespace

TEST_CASE("zip_members finds stored and deflated members with their names and contents") {
  const Bytes bytes = archive();
  const std::vector<ZipMember> members = zip_members(bytes, "x.zip");
  REQUIRE(members.size() == 2);
  CHECK(members[0].name == "letters");
  CHECK(members[0].method == 8);
  CHECK(zip_size(bytes, members[0], "x.zip") == 100);
  CHECK(members[1].name == "word");
  CHECK(members[1].method == 0);
  CHECK(contents(bytes) == std::vector{kLetters, kWord});
}

TEST_CASE("zip_members: an archive in a file has the members of the same archive in memory") {
  Bytes padded = archive();  // a comment, longer than the part that is read first
  padded[padded.size() - 2] = padded[padded.size() - 1] = 0xFF;
  padded.resize(padded.size() + 0xFFFF, '-');
  for (const Bytes& bytes : {archive(), large_archive({true, true, true}, false),
                             large_archive({false, false, false}, true), padded}) {
    CAPTURE(bytes.size());
    const std::vector<ZipMember> expected = zip_members(bytes, "x.zip");
    const std::vector<ZipMember> members = members_of_file(bytes);
    REQUIRE(members.size() == 2);
    for (std::size_t i = 0; i < 2; ++i) {
      CHECK(members[i].name == expected[i].name);
      CHECK(members[i].data == expected[i].data);
      CHECK(members[i].size == expected[i].size);
      CHECK(members[i].packed == expected[i].packed);
      CHECK(members[i].crc == expected[i].crc);
    }
    CHECK(contents(bytes) == std::vector{kLetters, kWord});
  }
}

TEST_CASE("zip_members rejects a file that is cut while it is read") {
  const TemporaryFolder folder;
  const Path path = folder.path() / "x.zip";
  const Bytes whole = archive();
  for (std::size_t size = 0; size < whole.size(); ++size) {
    CAPTURE(size);
    write_file_atomic(path, std::span<const std::uint8_t>(whole));
    const RandomAccessFile file(path);
    std::filesystem::resize_file(path, size);
    CHECK_THROWS_WITH_AS(zip_members(file, path.string()),
                         (path.string() + ": the file became shorter while it was read").c_str(),
                         DataError);
  }
}

TEST_CASE("zip_members rejects headers of members beyond the end of the file") {
  for (const std::uint64_t header :
       {std::uint64_t{1} << 40, ~std::uint64_t{0}, ~std::uint64_t{0} - 25}) {
    CAPTURE(header);
    Bytes bytes = archive();
    ZipMember word = zip_members(bytes, "x.zip").at(1);
    word.header = header;
    bytes.resize(kDirectory);
    add_record(bytes, word, {false, false, true});
    const Bytes whole = archive();
    bytes.insert(bytes.end(), whole.end() - 22, whole.end());
    bytes[bytes.size() - 12] = 1;  // of one member
    CHECK_THROWS_WITH_AS(zip_members(bytes, "x.zip"),
                         doctest::Contains("a record ends beyond the file"), DataError);
  }
}

TEST_CASE("zip_members reads sizes and offsets in zip64 fields, also after other fields") {
  for (int bits = 0; bits < 16; ++bits) {
    CAPTURE(bits);
    const In64 in_64{(bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0};
    const Bytes bytes = large_archive(in_64, (bits & 8) != 0);
    CHECK(contents(bytes) == std::vector{kLetters, kWord});
    const ZipMember member = zip_members(bytes, "x.zip").at(1);
    CHECK(member.name == "word");
    CHECK(member.size == 6);
    CHECK(member.packed == 6);
    CHECK(member.header == kWordHeader);
  }
}

TEST_CASE("zip_members rejects an archive cut at any byte") {
  const Bytes whole = archive();
  for (std::size_t size = 0; size < whole.size(); ++size) {
    CAPTURE(size);
    CHECK_THROWS_AS(contents({whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)}),
                    DataError);
  }
}

TEST_CASE("unzip returns the content or an error for any changed byte") {
  const Bytes whole = archive();
  for (std::size_t at = 0; at < whole.size(); ++at) {
    for (const int flipped : {0x01, 0x80, 0xFF}) {
      Bytes bytes = whole;
      bytes[at] = static_cast<std::uint8_t>(bytes[at] ^ flipped);
      CAPTURE(at);
      CAPTURE(flipped);
      try {
        // Names, times and versions may differ.
        for (const std::string& text : contents(bytes)) {
          CHECK((text == kLetters || text == kWord));
        }
      } catch (const DataError& error) {
        CHECK(std::string(error.what()).starts_with("x.zip: "));
      }
    }
  }
}

TEST_CASE("zip_size and unzip reject a member with a wrong size, checksum or method") {
  const Bytes bytes = archive();
  ZipMember member = zip_members(bytes, "x.zip").front();
  member.size = std::uint64_t{1} << 60;
  CHECK_THROWS_WITH_AS(
      zip_size(bytes, member, "x.zip"),
      "x.zip: is a damaged zip archive: a member claims more bytes than it can have", DataError);
  member.size = 99;
  Bytes to(99);
  CHECK_THROWS_WITH_AS(unzip(bytes, member, to, "x.zip"),
                       "x.zip: is damaged: a member cannot be decompressed; fetch the file again",
                       DataError);
  member.size = 100;
  to.resize(100);
  member.crc ^= 1;
  CHECK_THROWS_WITH_AS(unzip(bytes, member, to, "x.zip"),
                       "x.zip: its checksum does not match: the file is damaged", DataError);
  member.method = 12;
  CHECK_THROWS_WITH_AS(unzip(bytes, member, to, "x.zip"), doctest::Contains("zip method 12"),
                       DataError);
}

TEST_CASE("zip_size rejects a small member that expands to more than 320 MiB") {
  const Bytes archive(400'100);
  ZipMember member;
  member.method = 8;
  member.packed = 400'000;
  member.size = 320 << 20;
  CHECK(zip_size(archive, member, "a.zip") == member.size);
  ++member.size;
  CHECK_THROWS_WITH_AS(zip_size(archive, member, "a.zip"),
                       doctest::Contains("a.zip: has 400000 bytes, which expand to 335544321"),
                       DataError);
}

}  // namespace trainer
