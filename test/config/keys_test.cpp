#include <doctest/doctest.h>

#include <set>

#include "base/files/files.h"
#include "config/describe/schema.h"
#include "support/source_files.h"

namespace trainer::config {

TEST_CASE(
    "config/keys.h: each constant is a key or section of a config, and no key is there twice") {
  const std::string text = read_text_file(test::source_file("lib/config/keys.h"));
  const std::vector<std::string> settable = settable_keys();
  const std::set<std::string> known(settable.begin(), settable.end());
  std::set<std::string> seen;
  // char kName[] = "key"
  const std::string begin = "inline constexpr char ";
  for (std::size_t at = text.find(begin); at != std::string::npos; at = text.find(begin, at)) {
    at += begin.size();
    const std::string name = text.substr(at, text.find('[', at) - at);
    const std::size_t quote = text.find('"', at) + 1;
    const std::string key = text.substr(quote, text.find('"', quote) - quote);
    const auto below = known.lower_bound(key + '.');  // of a section
    const bool is_section = below != known.end() && below->starts_with(key + '.');
    CHECK_MESSAGE((known.contains(key) || is_section), name, " is '", key,
                  "', which is not a key or a section");
    CHECK_MESSAGE(seen.insert(key).second, key, " has two constants");
  }
  CHECK(seen.size() > 20);
}

}  // namespace trainer::config
