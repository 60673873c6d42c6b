#include "base/text.h"

#include <doctest/doctest.h>

using namespace trainer;

TEST_CASE("to_lower changes the letters of ASCII and no other byte") {
  CHECK(to_lower("AZ az [@`{ 09 \xC3\x84") == "az az [@`{ 09 \xC3\x84");
  CHECK(to_lower("").empty());
}

TEST_CASE("is_line_of_text is true for UTF-8 without control characters") {
  for (const char* text :
       {"", "cat", " two words ", "caf\u00e9", "\u732b", "\U0001F408", "a\\b\"c,d"}) {
    CAPTURE(text);
    CHECK(is_line_of_text(text));
  }
  // Latin-1, cut off, overlong, a surrogate, beyond the last character, a lone continuation.
  for (const char* text :
       {"two\nlines", "tab\t", "\x7f", "caf\xe9", "\xc3", "\xe7\x8c", "\xc0\x80", "\xe0\x80\x80",
        "\xf0\x80\x80\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\x80"}) {
    CAPTURE(escaped(text));
    CHECK_FALSE(is_line_of_text(text));
  }
  CHECK_FALSE(is_line_of_text(std::string_view("a\0b", 3)));
}

TEST_CASE("escaped writes bytes that are not printable ASCII as hexadecimal escapes") {
  CHECK(escaped("cat 1") == "cat 1");
  CHECK(escaped("caf\xe9\n") == "caf\\xe9\\x0a");
}

TEST_CASE("printable writes control characters as escapes and keeps other characters") {
  CHECK(printable("caf\xc3\xa9 \xe4\xb8\xad") == "caf\xc3\xa9 \xe4\xb8\xad");
  CHECK(printable("a\x1b[31m\n\x7f") == "a\\x1b[31m\\x0a\\x7f");
  CHECK(printable("a\nb\r", Controls::kLines) == "a\nb\\x0d");
  CHECK(printable("\xc2\x9b"
                  "1m \xc2\xa0") == "\\xc2\\x9b1m \xc2\xa0");
  CHECK(printable("caf\xe9") == "caf\\xe9");
}

TEST_CASE("join puts the separator between words, and join_first adds a count to the first ones") {
  CHECK(join({}) == "");
  CHECK(join({"a"}) == "a");
  CHECK(join({"a", "", "c"}) == "a, , c");
  CHECK(join({"a", "b"}, " | ") == "a | b");
  CHECK(join_first({}, 2) == "");
  CHECK(join_first({"a", "b"}, 2) == "a, b");
  CHECK(join_first({"a", "b", "c", "d"}, 2) == "a, b and 2 more");
}

TEST_CASE("is_line_of_text is true for the texts that printable() leaves as they are") {
  for (const char* text : {"", "a b", "d\xc3\xb6g", "\xe2\x82\xac", "\xc2\xa0"}) {
    CAPTURE(text);
    CHECK(trainer::is_line_of_text(text));
    CHECK(trainer::printable(text) == text);
  }
  for (const char* text : {"a\nb", "a\tb", "\x1b[2J", "\x7f", "\xc2\x9bm", "\xff"}) {
    CAPTURE(text);
    CHECK_FALSE(trainer::is_line_of_text(text));
    CHECK(trainer::is_line_of_text(trainer::printable(text)));
  }
}

TEST_CASE("to_hex writes leading zeros up to the number of digits") {
  CHECK(trainer::to_hex(0) == "0");
  CHECK(trainer::to_hex(0x1f) == "1f");
  CHECK(trainer::to_hex(0x1f, 4) == "001f");
  CHECK(trainer::to_hex(0x12345, 4) == "12345");
  CHECK(trainer::to_hex(~std::uint64_t{0}, 16) == "ffffffffffffffff");
}

TEST_CASE("split_lines: the last line end begins no line") {
  using Lines = std::vector<std::string>;
  CHECK(trainer::split_lines("") == Lines{});
  CHECK(trainer::split_lines("\n") == Lines{""});
  CHECK(trainer::split_lines("a") == Lines{"a"});
  CHECK(trainer::split_lines("a\n\nb\n") == Lines{"a", "", "b"});
}

TEST_CASE("counted writes a number with the singular or the plural of its noun") {
  CHECK(trainer::counted(1, "file") == "1 file");
  CHECK(trainer::counted(0, "file") == "0 files");
  CHECK(trainer::counted(2, "batch") == "2 batches");
  CHECK(trainer::counted(3, "entry") == "3 entries");
  CHECK(trainer::plural("classes") == "classes");
}
