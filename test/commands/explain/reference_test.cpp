#include "commands/explain/reference.h"

#include <doctest/doctest.h>

#include <cstdlib>

#include "base/files/files.h"
#include "support/source_files.h"

namespace trainer::commands {

TEST_CASE("reference: configs/reference.md is up to date") {
  const Path file = test::source_file("configs/reference.md");
  const std::string text = reference();
  if (std::getenv("TRAINER_UPDATE_GOLDEN") != nullptr) write_file_atomic(file, text);
  INFO("run with TRAINER_UPDATE_GOLDEN=1, or trainer explain --all > configs/reference.md");
  CHECK(read_text_file(file) == text);
}

TEST_CASE("output_reference returns configs/output_reference.md") {
  const Path file = test::source_file("configs/output_reference.md");
  const std::string text = output_reference();
  if (std::getenv("TRAINER_UPDATE_GOLDEN") != nullptr) write_file_atomic(file, text);
  INFO("run with TRAINER_UPDATE_GOLDEN=1, or trainer explain --outputs > that file");
  CHECK(read_text_file(file) == text);
}

TEST_CASE("reference has the sections, backbones, formats and exit codes") {
  const std::string text = reference();
  for (const char* part :
       {"\n## optimizer\n", "\n## schedule\n", "\n## layer\n", "\n## augmentation\n",
        "\n## Backbones\n", "\n## Data formats\n", "\n## Exit codes\n",
        "| `conv.filters` | a whole number, at least 1 | required |",
        "| `optimizer.adam.learning_rate` | a number, at least 0 | `0.001` |", "| `mobilenet_v2` |",
        "| 75 | interrupted and saved"}) {
    CAPTURE(part);
    CHECK(text.find(part) != std::string::npos);
  }
  // A table's row is one line, with as many cells as its titles.
  CHECK(text.find("|\n\n|") == std::string::npos);
}

}  // namespace trainer::commands
