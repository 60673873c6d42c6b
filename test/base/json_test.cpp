#include "base/formats/json.h"

#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/formats/json_number.h"

namespace trainer {

TEST_CASE("to_json_line writes any values as one line of JSON") {
  CHECK(to_json_line({{"event", "x"}, {"path", "a\"b\\c\nd"}, {"rate", NAN}, {"loss", 0.5}}) ==
        R"({"event":"x","path":"a\"b\\c\nd","rate":null,"loss":0.5})");
}

TEST_CASE("append_key: keys stay in their order") {
  nlohmann::ordered_json object{{"b", 1}};
  append_key(object, "a", 2.5);
  append_key(object, "c", {{"x", nullptr}});
  CHECK(to_json_line(object) == R"({"b":1,"a":2.5,"c":{"x":null}})");
  CHECK(object["a"] == 2.5);
}

TEST_CASE("to_json_line replaces bytes that are not UTF-8 by U+FFFD") {
  CHECK(to_json_line("a\xff"
                     "b") ==
        "\"a\xEF\xBF\xBD"
        "b\"");
}

TEST_CASE("is_shallow_json: brackets in strings do not count") {
  const auto nested = [](int depth) {
    return std::string(static_cast<std::size_t>(depth), '[') +
           std::string(static_cast<std::size_t>(depth), ']');
  };
  CHECK(is_shallow_json(nested(kMaxJsonDepth)));
  CHECK_FALSE(is_shallow_json(nested(kMaxJsonDepth + 1)));
  CHECK(is_shallow_json("[\"" + nested(100) + "\", \"\\\"" + std::string(100, '{') + "\"]"));
  std::string siblings = "[";
  for (int i = 0; i < 100; ++i) siblings += "[],";
  CHECK(is_shallow_json(siblings + "1]"));
}

TEST_CASE("whole_number accepts integers up to 2^53 and nothing else") {
  using Json = nlohmann::json;
  CHECK(whole_number(Json(-5)) == -5);
  CHECK(whole_number(Json(std::int64_t{1} << 53)) == std::int64_t{1} << 53);
  CHECK(whole_number(Json(-(std::int64_t{1} << 53))) == -(std::int64_t{1} << 53));
  CHECK_FALSE(whole_number(Json((std::int64_t{1} << 53) + 1)));
  CHECK_FALSE(whole_number(Json(std::numeric_limits<std::uint64_t>::max())));
  CHECK_FALSE(whole_number(Json(std::numeric_limits<std::int64_t>::min())));
  CHECK_FALSE(whole_number(Json(1.0)));
  CHECK_FALSE(whole_number(Json("1")));
  CHECK_FALSE(whole_number(Json()));
}

}  // namespace trainer
