#include "base/files/glob.h"

#include <doctest/doctest.h>

#include <string>

namespace trainer {

TEST_CASE("* is any text, ? one character, the rest itself") {
  CHECK(matches("block5_*", "block5_conv1"));
  CHECK(matches("*", ""));
  CHECK(matches("*_conv?", "block5_conv1"));
  CHECK(matches("a*b*c", "a1b2b3c"));
  CHECK(matches("conv", "conv"));
  CHECK_FALSE(matches("conv", "conv1"));
  CHECK_FALSE(matches("*_conv?", "block5_conv"));
  CHECK_FALSE(matches("a*b*c", "a1b2b3"));
  CHECK_FALSE(matches("", "a"));
}

TEST_CASE("in a path * and ? stop at a slash and **/ crosses folders") {
  CHECK(matches_path("*.png", "a.png"));
  CHECK_FALSE(matches_path("*.png", "x/a.png"));
  CHECK_FALSE(matches_path("a?b", "a/b"));
  CHECK(matches_path("**/*.png", "a.png"));
  CHECK(matches_path("**/*.png", "x/y/a.png"));
  CHECK(matches_path("train/**/*.png", "train/a.png"));
  CHECK(matches_path("train/**/*.png", "train/x/y/a.png"));
  CHECK_FALSE(matches_path("train/**/*.png", "trainer/a.png"));
  CHECK_FALSE(matches_path("**/a", "ba"));
  CHECK(matches_path("**/a/**/b", "x/a/y/z/b"));
  CHECK_FALSE(matches_path("**", "a/b"));
  CHECK(matches("*", "a/b"));
}

TEST_CASE("a pattern of many stars takes no longer than its length times the text's") {
  std::string pattern;
  for (int i = 0; i < 40; ++i) pattern += "*a";
  CHECK_FALSE(matches(pattern + "b", std::string(200, 'a')));
  CHECK_FALSE(matches_path("**/" + pattern + "b", std::string(200, 'a')));
}

}  // namespace trainer
