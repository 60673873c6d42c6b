#include <doctest/doctest.h>

#include <regex>
#include <set>

#include "base/files.h"
#include "config/describe/schema.h"
#include "support/source_files.h"

namespace trainer::config {

TEST_CASE("the constants of config/keys.h are keys or sections of a config, each once") {
  const std::string text = read_text_file(test::source_file("lib/config/keys.h"));
  const std::vector<std::string> settable = settable_keys();
  const std::set<std::string> known(settable.begin(), settable.end());
  const std::regex constant("char (\\w+)\\[\\] =\\s*\"([^\"]*)\"");
  std::set<std::string> seen;
  for (std::sregex_iterator at(text.begin(), text.end(), constant), end; at != end; ++at) {
    const std::string key = (*at)[2];
    const auto below = known.lower_bound(key + '.');  // of a section
    const bool is_section = below != known.end() && below->starts_with(key + '.');
    CHECK_MESSAGE((known.contains(key) || is_section), (*at)[1].str(), " is '", key,
                  "', which is no key and no section");
    CHECK_MESSAGE(seen.insert(key).second, key, " has two constants");
  }
  CHECK(seen.size() > 20);
}

}  // namespace trainer::config
