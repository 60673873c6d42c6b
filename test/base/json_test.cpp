#include "base/formats/json.h"

#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

namespace trainer {

TEST_CASE("an event is one line of JSON whatever it holds") {
  std::ostringstream out;
  write_event(out, {{"event", "x"}, {"path", "a\"b\\c\nd"}, {"rate", NAN}, {"loss", 0.5}});
  CHECK(out.str() == R"({"event":"x","path":"a\"b\\c\nd","rate":null,"loss":0.5})"
                     "\n");
}

TEST_CASE("bytes that are not UTF-8 are replaced") {
  CHECK(to_json_line("a\xff"
                     "b") ==
        "\"a\xEF\xBF\xBD"
        "b\"");
}

}  // namespace trainer
