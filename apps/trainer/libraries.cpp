// What the program is made of: the shared libraries that it runs with, and what is compiled in.
#include <gnu/libc-version.h>
#include <link.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "base/formats/table.h"
#include "line/command_line.h"
#include "version.h"

namespace trainer::app {
namespace {

// By file: Debian's names carry the version, "libpng16.so.16.39.0".
int add_library(dl_phdr_info* info, std::size_t, void* found) {
  const std::filesystem::path path = info->dlpi_name;
  if (path.empty() || path.filename().string().find(".so") == std::string::npos) return 0;
  std::error_code failure;
  const std::filesystem::path file = std::filesystem::canonical(path, failure);
  if (!failure) static_cast<std::map<std::string, std::string>*>(found)->emplace(path, file);
  return 0;
}

std::string version_in(const std::string& file) {
  const std::size_t at = file.rfind(".so.");
  return at == std::string::npos ? "" : file.substr(at + 4);
}

}  // namespace

void print_libraries(std::ostream& out) {
  std::map<std::string, std::string> found;
  ::dl_iterate_phdr(add_library, &found);
  Table table({"library", "version", "file"});
  for (const auto& [name, file] : found) {
    const std::string base = std::filesystem::path(name).filename();
    const std::string version =
        base.rfind("libc.so", 0) == 0 ? ::gnu_get_libc_version() : version_in(file);
    table.add({base.substr(0, base.find(".so")), version, file});
  }
  table.add({"CLI11", command_line_library_version(), "compiled in"});
  table.add({"nlohmann-json",
             std::to_string(NLOHMANN_JSON_VERSION_MAJOR) + "." +
                 std::to_string(NLOHMANN_JSON_VERSION_MINOR) + "." +
                 std::to_string(NLOHMANN_JSON_VERSION_PATCH),
             "compiled in"});
  table.add({"compiler", __VERSION__, ""});
  table.print(out);
}

}  // namespace trainer::app
