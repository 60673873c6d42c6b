// The words of a config that name the enumerators of an enum.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace trainer::config {

// The enumerators of an enum with their words. An enumerator may have several words, of which the
// first is printed.
template <class E>
using Spellings = std::vector<std::pair<E, std::string_view>>;

// Specialised in the header of the section that has the enum, and defined in its source.
template <class E>
const Spellings<E>& spellings();

// Returns the enumerator that a word names; nothing for other words.
template <class E>
std::optional<E> parse_enum(std::string_view word) {
  for (const auto& [enumerator, name] : spellings<E>()) {
    if (name == word) return enumerator;
  }
  return std::nullopt;
}

// Returns all words, in their order.
template <class E>
std::vector<std::string> enum_words() {
  std::vector<std::string> words;
  for (const auto& [enumerator, name] : spellings<E>()) words.emplace_back(name);
  return words;
}

template <class E>
std::string_view spell(E value) {
  for (const auto& [enumerator, name] : spellings<E>()) {
    if (enumerator == value) return name;
  }
  return "";
}

}  // namespace trainer::config
