#include "base/error.h"

#include "base/text.h"

namespace trainer {

std::string to_string(const SourceLoc& loc) {
  const std::string file = printable(loc.file);
  return loc.line <= 0 ? file : concat(file, ":", loc.line, ":", loc.column);
}

std::string to_string(const Diagnostic& diagnostic) {
  const std::string place = to_string(diagnostic.loc);
  return place.empty() ? "error: " + diagnostic.message : place + ": error: " + diagnostic.message;
}

namespace {

std::string join_diagnostics(const std::vector<Diagnostic>& diagnostics) {
  std::string text;
  for (const Diagnostic& diagnostic : diagnostics) {
    if (!text.empty()) text += '\n';
    text += to_string(diagnostic);
  }
  return text;
}

}  // namespace

ConfigError::ConfigError(std::vector<Diagnostic> diagnostics)
    : Error(kExitConfig, join_diagnostics(diagnostics)), diagnostics_(std::move(diagnostics)) {}

DataError::DataError(const std::string& path, const std::string& message)
    : DataError(path, message, Controls::kNone) {}

DataError::DataError(const std::string& path, const std::string& message, Controls kept)
    : Error(kExitData, printable(path) + ": " + printable(message, kept)) {}

}  // namespace trainer
