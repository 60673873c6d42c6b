#include "hooks/mlflow/names.h"

#include <set>

#include "base/error.h"

namespace trainer::hooks::mlflow {
namespace {

constexpr std::string_view kAccepted =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-. ";

bool is_empty(const std::string& value) {
  return value.empty() || value == "null" || value == "[]" || value == "\"\"";
}

}  // namespace

std::string to_param_name(std::string_view key) {
  std::string name;
  for (const char c : key) {
    if (c == ']') continue;
    name += c == '[' ? '.' : kAccepted.find(c) == std::string_view::npos ? '_' : c;
  }
  return name.substr(0, kMaxNameBytes);
}

Pairs to_params(const Pairs& settings) {
  constexpr std::size_t kSuffixBytes = 8;
  Pairs params;
  std::set<std::string> taken;
  for (const auto& [key, value] : settings) {
    if (is_empty(value)) continue;
    const std::string name = to_param_name(key);
    std::string unique = name;
    for (int count = 2; !taken.insert(unique).second; ++count) {
      unique = concat(name.substr(0, kMaxNameBytes - kSuffixBytes), '_', count);
    }
    params.emplace_back(unique, cut_text(value, kMaxParamBytes));
  }
  return params;
}

std::string cut_text(std::string text, std::size_t max_bytes) {
  if (text.size() <= max_bytes) return text;
  const auto continues = [&](std::size_t at) {
    return (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80;
  };
  while (max_bytes > 0 && continues(max_bytes)) --max_bytes;
  text.resize(max_bytes);
  return text;
}

}  // namespace trainer::hooks::mlflow
