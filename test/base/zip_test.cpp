#include "base/formats/zip.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "base/error.h"

namespace trainer {
namespace {

using Bytes = std::vector<std::uint8_t>;

// Written by Python's zipfile: "letters", 100 times a, deflated, and "word", "stored", as it is.
constexpr std::string_view kArchive =
    "504b030414000000080000002100647a70af0600000064000000070000006c6574746572734b4ca43d000050"
    "4b0304140000000000000021000bf94356060000000600000004000000776f726473746f726564504b010214"
    "0314000000080000002100647a70af06000000640000000700000000000000000000008001000000006c6574"
    "74657273504b01021403140000000000000021000bf943560600000006000000040000000000000000000000"
    "80012b000000776f7264504b0506000000000200020067000000530000000000";

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

}  // namespace

TEST_CASE("stored and deflated members of an archive are read") {
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

TEST_CASE("an archive that was cut anywhere is an error") {
  const Bytes whole = archive();
  for (std::size_t size = 0; size < whole.size(); ++size) {
    CAPTURE(size);
    CHECK_THROWS_AS(contents({whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)}),
                    DataError);
  }
}

TEST_CASE("no changed byte of an archive passes for content") {
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

TEST_CASE("a member that claims more than can be packed takes no memory") {
  const Bytes bytes = archive();
  ZipMember member = zip_members(bytes, "x.zip").front();
  member.size = std::uint64_t{1} << 60;
  CHECK_THROWS_WITH_AS(zip_size(bytes, member, "x.zip"), "x.zip: is damaged: impossible size",
                       DataError);
  member.size = 99;
  Bytes to(99);
  CHECK_THROWS_AS(unzip(bytes, member, to, "x.zip"), DataError);
  member.method = 12;
  CHECK_THROWS_WITH_AS(unzip(bytes, member, to, "x.zip"), doctest::Contains("zip method 12"),
                       DataError);
}

}  // namespace trainer
