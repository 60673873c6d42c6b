#include "support/source_files.h"

namespace trainer::test {

std::string source_file(std::string_view name) {
  return name.empty() ? PROJECT_SOURCE_DIR : std::string(PROJECT_SOURCE_DIR "/").append(name);
}

}  // namespace trainer::test
