// test/bad: wrong configs and, beside each, the exact messages. `# set: a.b=c` in the first lines
// gives an override. TRAINER_UPDATE_GOLDEN=1 writes the messages anew.
#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <set>
#include <sstream>

#include "base/files/files.h"
#include "config/support.h"
#include "support/source_files.h"

namespace trainer::config {
namespace {

std::vector<Override> read_overrides(const std::string& text) {
  static const std::string kMark = "# set: ";
  std::vector<Override> overrides;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line) && line.starts_with(kMark);) {
    const std::size_t equals = line.find('=');
    overrides.push_back(
        set(line.substr(kMark.size(), equals - kMark.size()), line.substr(equals + 1)));
  }
  return overrides;
}

void check_messages(const std::filesystem::path& file) {
  const std::string text = read_text_file(file);
  std::string found;
  try {
    parse_config(text, file.filename().string(), read_overrides(text),
                 {{"TEN", "010"}, {"WORD", "many"}, {"EMPTY", ""}});
  } catch (const ConfigError& error) {
    CHECK(error.code() == kExitConfig);
    found = std::string(error.what()) + '\n';
  }
  CHECK(!found.empty());
  const std::filesystem::path golden = std::filesystem::path(file).replace_extension(".txt");
  if (std::getenv("TRAINER_UPDATE_GOLDEN") != nullptr) write_file_atomic(golden, found);
  CHECK(read_text_file(golden) == found);
}

TEST_CASE("load_config prints exactly the messages beside each config of test/bad") {
  std::set<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(test::source_file("test/bad"))) {
    if (entry.path().extension() == ".yaml") files.insert(entry.path());
  }
  CHECK(files.size() >= 20);
  for (const std::filesystem::path& file : files) {
    SUBCASE(file.filename().c_str()) { check_messages(file); }
  }
}

TEST_CASE("load_config reports five mistakes as five errors with their places") {
  const std::string file = test::source_file("test/bad/five_mistakes.yaml");
  try {
    load_config(file, {}, {});
    FAIL("the config was taken");
  } catch (const ConfigError& error) {
    REQUIRE(error.diagnostics().size() == 5);
    int line = 0;
    for (const Diagnostic& diagnostic : error.diagnostics()) {
      CHECK(diagnostic.loc.file == file);
      CHECK(diagnostic.loc.line >= line);
      CHECK(diagnostic.loc.column > 0);
      line = diagnostic.loc.line;
    }
  }
}

}  // namespace
}  // namespace trainer::config
