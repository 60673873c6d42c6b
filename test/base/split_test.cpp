#include "base/split.h"

#include <doctest/doctest.h>

#include <set>
#include <string>

namespace trainer {

TEST_CASE("split: each name reads back to its split, and other texts read back to none") {
  std::set<std::string> names;
  for (const Split split : kSplits) {
    CHECK(parse_split(to_string(split)) == split);
    names.insert(to_string(split));
  }
  CHECK(names == std::set<std::string>{"test", "train", "validation"});
  for (const char* text : {"", "Train", "val", "tests"}) CHECK(!parse_split(text));
}

}  // namespace trainer
