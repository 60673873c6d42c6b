#include "support/changed_bytes.h"

#include <doctest/doctest.h>

#include "config/config.h"

namespace trainer::config {
namespace {

// A message without the suggestion of another word and the list of what is allowed, in which every
// new key shows.
std::string without_lists(const std::string& message) {
  std::size_t end = message.size();
  for (const char* const next : {", did you mean", ". Allowed", ". Expected a"}) {
    end = std::min(end, message.find(next));
  }
  for (const std::string before : {"expected one of", "one of:", "a map with the keys"}) {
    const std::size_t at = message.find(before);
    if (at != std::string::npos) end = std::min(end, at + before.size());
  }
  return message.substr(0, end);
}

// The values that the file gives, each with its place: a new key or another default leaves it.
std::string given(const LoadedConfig& loaded) {
  std::string text;
  for (const auto& [key, value] : leaves(loaded.config)) {
    const Origin& origin = loaded.origins.at(key);
    if (origin.kind == Origin::Kind::kDefault) continue;
    text += concat(key, "=", value, " ", to_string(origin.loc), " ", origin.detail, "; ");
  }
  return text;
}

std::string read(const Path& path) {
  try {
    return given(parse_config(read_text_file(path), "x.yaml", {}, {{"N", "3"}}));
  } catch (const ConfigError& error) {
    std::vector<Diagnostic> diagnostics = error.diagnostics();
    for (Diagnostic& one : diagnostics) one.message = without_lists(one.message);
    throw ConfigError(diagnostics);
  }
}

const std::string kSeeds = "test/fuzz/seeds/yaml";

}  // namespace

TEST_CASE(
    "a config with layers: load_config returns the expected results when each byte is changed") {
  test::check_answers("config_layers", kSeeds, {"mnist_dense.yaml"}, read);
}

TEST_CASE(
    "a config with a backbone: load_config returns the expected results when each byte is "
    "changed") {
  test::check_answers("config_backbone", kSeeds, {"oct_vgg16.yaml"}, read,
                      test::Changes::kOnePerByte);
}

}  // namespace trainer::config
