#include "base/formats/canvas.h"

#include <doctest/doctest.h>

namespace trainer {
namespace {

using Direction = Canvas::Direction;

Bytes drawn(const std::string& text, int most = 100, Direction direction = Direction::kRight) {
  Canvas canvas(60, 40);
  canvas.text(3, direction == Direction::kUp ? 35 : 5, most, text, kBlack, direction);
  return canvas.png();
}

}  // namespace

TEST_CASE("Canvas draws a question mark for each character that the font lacks") {
  CHECK(drawn("a?b") != drawn("a b"));
  for (const char* text : {"a\xC3\xA9"
                           "b",
                           "a\xE2\x82\xAC"
                           "b",
                           "a\x7F"
                           "b",
                           "a\x1F"
                           "b"}) {
    CHECK(drawn(text) == drawn("a?b"));
  }
  CHECK(drawn("a~b") != drawn("a?b"));
  CHECK(Canvas::text_width("\xC3\xA9") == Canvas::text_width("?"));
}

TEST_CASE("Canvas leaves out letters beyond the width") {
  const int width = Canvas::text_width("ab");
  CHECK(drawn("abc", width) == drawn("ab"));
  CHECK(drawn("abc", width - 1) == drawn("a"));
  CHECK(drawn("abc", width, Direction::kUp) == drawn("ab", 100, Direction::kUp));
}

TEST_CASE("Canvas: fill() paints the rectangle from its corner with its width and height") {
  Canvas filled(8, 6), set(8, 6);
  filled.fill(2, 1, 3, 4, kBlack);
  for (int y = 1; y < 5; ++y) {
    for (int x = 2; x < 5; ++x) set.set(x, y, kBlack);
  }
  CHECK(filled.png() == set.png());
}

TEST_CASE("Canvas does not draw pixels, rectangles and text outside of itself") {
  const Bytes white = Canvas(8, 6).png();
  Canvas canvas(8, 6);
  for (const auto& [x, y] : {std::pair(-1, 0), {0, -1}, {8, 0}, {0, 6}}) canvas.set(x, y, kBlack);
  canvas.fill(8, 0, 3, 3, kBlack);
  canvas.text(-40, 0, 20, "abc");
  CHECK(canvas.png() == white);
  canvas.fill(-2, -2, 20, 20, kBlack);
  Canvas black(8, 6);
  for (int y = 0; y < 6; ++y) {
    for (int x = 0; x < 8; ++x) black.set(x, y, kBlack);
  }
  CHECK(canvas.png() == black.png());
  CHECK(canvas.png() != white);
}

TEST_CASE("Canvas draws only the letters that fit of a text of a million letters") {
  CHECK(drawn("cat") != drawn("ca"));
  CHECK(drawn(std::string(5'000'000, 'x'), 40) == drawn(std::string(20, 'x'), 40));
}

}  // namespace trainer
