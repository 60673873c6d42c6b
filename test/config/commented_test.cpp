// What `trainer new CONFIG` writes.
#include <doctest/doctest.h>

#include <filesystem>

#include "config/describe/emit.h"
#include "support/source_files.h"

namespace trainer::config {
namespace {

TEST_CASE("commented_yaml: every shipped config is read back to the same values") {
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(test::source_file("configs"))) {
    if (entry.path().extension() != ".yaml") continue;
    INFO(entry.path().string());
    const Config config = load_config(entry.path(), {}, {}).config;
    const std::string text = commented_yaml(config);
    CHECK(to_yaml(parse_config(text, "commented.yaml", {}, {}).config) == to_yaml(config));
    CHECK(
        text.find("  # Samples per step and replica; auto: the most that fit the device's memory, "
                  "up to 1024.\n  batch_size: ") != std::string::npos);
  }
}

}  // namespace
}  // namespace trainer::config
