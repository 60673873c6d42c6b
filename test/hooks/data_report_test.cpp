#include "hooks/data_report.h"

#include <doctest/doctest.h>

#include "data/damaged_files.h"

namespace trainer::hooks {
namespace {

std::string text(std::int64_t files, const std::vector<std::string>& reasons) {
  const data::DamagedFiles damaged(files, reasons, {});
  return left_out(&damaged, "test");
}

}  // namespace

TEST_CASE("of what evaluation leaves out three files are named and the others counted") {
  CHECK(left_out(nullptr, "test").empty());
  CHECK(text(9, {}).empty());
  CHECK(text(9, {"a"}) == "1 of 9 files of the test split cannot be read and is left out: a");
  const std::string three = "of 9 files of the test split cannot be read and are left out: a; b; c";
  CHECK(text(9, {"a", "b", "c"}) == "3 " + three);
  CHECK(text(9, {"a", "b", "c", "d", "e"}) == "5 " + three + "; and 2 more");
}

}  // namespace trainer::hooks
