#include "base/error.h"

#include <charconv>
#include <span>

#include "base/text.h"

namespace trainer {
namespace {

template <class... Number>
std::string_view print_number(std::span<char> buffer, Number... number) {
  const std::to_chars_result end =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), number...);
  return {buffer.data(), end.ptr};
}

std::string join_diagnostics(const std::vector<Diagnostic>& diagnostics) {
  std::string text;
  for (const Diagnostic& diagnostic : diagnostics) {
    if (!text.empty()) text += '\n';
    text += to_string(diagnostic);
  }
  return text;
}

}  // namespace

TextPart::TextPart(long long number) : text_(print_number(buffer_, number)) {}
TextPart::TextPart(unsigned long long number) : text_(print_number(buffer_, number)) {}
TextPart::TextPart(double number)
    : text_(print_number(buffer_, number, std::chars_format::general, 6)) {}

std::string join_parts(std::initializer_list<TextPart> parts) {
  std::size_t size = 0;
  for (const TextPart& part : parts) size += part.text().size();
  std::string text;
  text.reserve(size);
  for (const TextPart& part : parts) text += part.text();
  return text;
}

std::string to_string(const SourceLoc& loc) {
  const std::string file = printable(loc.file);
  return loc.line <= 0 ? file : concat(file, ":", loc.line, ":", loc.column);
}

std::string to_string(const Diagnostic& diagnostic) {
  const std::string place = to_string(diagnostic.loc);
  return place.empty() ? "error: " + diagnostic.message : place + ": error: " + diagnostic.message;
}

ConfigError::ConfigError(std::vector<Diagnostic> diagnostics)
    : Error(kExitConfig, join_diagnostics(diagnostics)), diagnostics_(std::move(diagnostics)) {}

std::string DataError::print(const std::string& path, const std::string& message, Controls kept) {
  return printable(path) + ": " + printable(message, kept);
}

}  // namespace trainer
