#include "base/error.h"

#include <doctest/doctest.h>

#include "base/text.h"

namespace trainer {

TEST_CASE("a location prints as file:line:column, or as much of it as is known") {
  CHECK(to_string(SourceLoc{"configs/x.yaml", 41, 7}) == "configs/x.yaml:41:7");
  CHECK(to_string(SourceLoc{"configs/x.yaml"}) == "configs/x.yaml");
  CHECK(to_string(SourceLoc{}).empty());
  CHECK_FALSE(SourceLoc{}.known());
}

TEST_CASE("a config error lists every diagnostic, one a line") {
  const ConfigError error({{{"a.yaml", 1, 2}, "first"}, {{}, "second"}});
  CHECK(std::string(error.what()) == "a.yaml:1:2: error: first\nerror: second");
  CHECK(error.code() == kExitConfig);
  CHECK(error.diagnostics().size() == 2);
}

TEST_CASE("each error carries its exit code") {
  CHECK(DataError("a.idx", "is damaged").code() == kExitData);
  CHECK(std::string(DataError("a.idx", "is damaged").what()) == "a.idx: is damaged");
  CHECK(DeviceError("lost").code() == kExitDevice);
  CHECK(CheckError("differs").code() == kExitCheck);
}

TEST_CASE("data error: line breaks and control characters of names, spelled out unless kept") {
  CHECK(std::string(DataError("a\nb\x1b.png", "no class \x07\n").what()) ==
        "a\\x0ab\\x1b.png: no class \\x07\\x0a");
  CHECK(std::string(DataError("a\nb", "differs:\n\x1b", Controls::kLines).what()) ==
        "a\\x0ab: differs:\n\\x1b");
}

TEST_CASE("config error: line breaks and control characters of a file name, spelled out") {
  CHECK(std::string(ConfigError({"a\nb\x1b.yaml", 1, 2}, "wrong").what()) ==
        "a\\x0ab\\x1b.yaml:1:2: error: wrong");
}

}  // namespace trainer
