#include "base/error.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <cstdio>
#include <limits>
#include <string_view>

#include "base/text.h"

namespace trainer {

TEST_CASE("SourceLoc: to_string() returns file:line:column or the known parts of it") {
  CHECK(to_string(SourceLoc{"configs/x.yaml", 41, 7}) == "configs/x.yaml:41:7");
  CHECK(to_string(SourceLoc{"configs/x.yaml"}) == "configs/x.yaml");
  CHECK(to_string(SourceLoc{}).empty());
  CHECK_FALSE(SourceLoc{}.known());
}

TEST_CASE("config error: each of several diagnostics has its own line") {
  const ConfigError error({{{"a.yaml", 1, 2}, "first"}, {{}, "second"}});
  CHECK(std::string(error.what()) == "a.yaml:1:2: error: first\nerror: second");
  CHECK(error.code() == kExitConfig);
  CHECK(error.diagnostics().size() == 2);
}

TEST_CASE("concat writes texts and numbers as an output stream prints them") {
  const std::string text = "text";
  const std::uint64_t largest = std::numeric_limits<std::uint64_t>::max();
  CHECK(concat(text, std::string_view(" view"), " literal", ',', text.c_str()) ==
        "text view literal,text");
  CHECK(concat(-1, ' ', std::int64_t{-5}, ' ', text.size(), ' ', largest, ' ', true, false) ==
        "-1 -5 4 18446744073709551615 10");
  CHECK(concat(std::numeric_limits<std::int64_t>::min()) == "-9223372036854775808");
  CHECK(concat().empty());
}

TEST_CASE("concat writes real numbers with six significant digits, as printf's %g does") {
  for (const double number :
       {0.0, -0.0, 0.1, 1.0 / 3, 100000.0, 999999.5, 1e6, 123456789.0, 1e-4, 0.00012345678, 1e-5,
        -1.2345678e-300, std::numeric_limits<double>::max(),
        std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity(),
        std::numeric_limits<double>::quiet_NaN()}) {
    char expected[40];
    std::snprintf(expected, sizeof expected, "%g", number);
    CHECK(concat(number) == expected);
  }
  CHECK(concat(0.1f, ' ', 16777216.0f) == "0.1 1.67772e+07");
}

TEST_CASE("Error: each kind has its exit code and message") {
  CHECK(DataError("a.idx", "is damaged").code() == kExitData);
  CHECK(std::string(DataError("a.idx", "is damaged").what()) == "a.idx: is damaged");
  CHECK(DeviceError("lost").code() == kExitDevice);
  CHECK(CheckError("differs").code() == kExitCheck);
}

TEST_CASE("data error: line breaks and control characters of names are spelled out unless kept") {
  CHECK(std::string(DataError("a\nb\x1b.png", "no class \x07\n").what()) ==
        "a\\x0ab\\x1b.png: no class \\x07\\x0a");
  CHECK(std::string(DataError("a\nb", Controls::kLines, "differs:\n\x1b").what()) ==
        "a\\x0ab: differs:\n\\x1b");
}

TEST_CASE("config error: line breaks and control characters of a file name are spelled out") {
  CHECK(std::string(ConfigError({"a\nb\x1b.yaml", 1, 2}, "wrong").what()) ==
        "a\\x0ab\\x1b.yaml:1:2: error: wrong");
}

}  // namespace trainer
