#include "base/files/glob.h"

#include <doctest/doctest.h>

#include <string>

namespace trainer {

TEST_CASE("matches: * stands for any text, ? for one character, other characters for themselves") {
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

TEST_CASE("matches: a class in brackets stands for one of its characters") {
  CHECK(matches("block[1-6]*", "block4a_add"));
  CHECK_FALSE(matches("block[1-6]*", "block7a_add"));
  CHECK_FALSE(matches("block[1-6]*", "block"));
  CHECK(matches("a[xyz]", "ay"));
  CHECK_FALSE(matches("a[xyz]", "a-"));
  CHECK(matches("[a-c1-3]_[z-z]", "2_z"));
  CHECK(matches("[!a-c]x", "dx"));
  CHECK_FALSE(matches("[!a-c]x", "bx"));
  CHECK(matches("[^a]", "b"));
  CHECK_FALSE(matches("[^a]", "a"));
  CHECK(matches("[]a]", "]"));
  CHECK(matches("[a-]", "-"));
  CHECK(matches("[-a]", "-"));
  CHECK_FALSE(matches("[6-1]", "3"));
  CHECK(matches("[\xc0-\xff]", "\xe4"));
}

TEST_CASE("matches: a bracket without an end stands for itself") {
  CHECK(matches("a[1", "a[1"));
  CHECK(matches("[", "["));
  CHECK(matches("[]", "[]"));
  CHECK(matches("[!]", "[!]"));
  CHECK_FALSE(matches("a[1", "a1"));
}

TEST_CASE("matches_path: a bracket stands for itself") {
  CHECK(matches_path("[1]/*.png", "[1]/a.png"));
  CHECK_FALSE(matches_path("[1]/*.png", "1/a.png"));
}

TEST_CASE("matches_path: * and ? stop at a slash, **/ crosses folders") {
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

TEST_CASE("matches and matches_path take no exponential time for many stars") {
  std::string pattern;
  for (int i = 0; i < 40; ++i) pattern += "*a";
  CHECK_FALSE(matches(pattern + "b", std::string(200, 'a')));
  CHECK_FALSE(matches_path("**/" + pattern + "b", std::string(200, 'a')));
}

}  // namespace trainer
