#include "base/error.h"

namespace trainer {

std::string to_string(const SourceLoc& loc) {
  if (loc.line <= 0) return loc.file;
  return concat(loc.file, ":", loc.line, ":", loc.column);
}

std::string to_string(const Diagnostic& diagnostic) {
  const std::string place = to_string(diagnostic.loc);
  return place.empty() ? "error: " + diagnostic.message : place + ": error: " + diagnostic.message;
}

namespace {

std::string join(const std::vector<Diagnostic>& diagnostics) {
  std::string text;
  for (const Diagnostic& diagnostic : diagnostics) {
    if (!text.empty()) text += '\n';
    text += to_string(diagnostic);
  }
  return text;
}

}  // namespace

ConfigError::ConfigError(std::vector<Diagnostic> diagnostics)
    : Error(kExitConfig, join(diagnostics)), diagnostics_(std::move(diagnostics)) {}

}  // namespace trainer
