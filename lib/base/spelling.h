// The words that name the enumerators of an enum in configs and messages.
//
// An enum E with words has a function beside it:
//   constexpr auto spellings(E) { return std::to_array<Spelling<E>>({{E::kFirst, "first"}, ...}); }
#pragma once

#include <array>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace trainer {

// An enumerator with its word. An enumerator may have several words, of which the first is printed.
template <class E>
struct Spelling {
  E value;
  std::string_view word;
};

// Returns the enumerator that a word names; nothing for other words.
template <class E>
std::optional<E> parse_enum(std::string_view word) {
  for (const Spelling<E>& each : spellings(E{})) {
    if (each.word == word) return each.value;
  }
  return std::nullopt;
}

// Returns all words, in their order.
template <class E>
std::vector<std::string> enum_words() {
  std::vector<std::string> words;
  for (const Spelling<E>& each : spellings(E{})) words.emplace_back(each.word);
  return words;
}

// Returns the first word of an enumerator. Throws std::logic_error if it has none.
template <class E>
constexpr std::string_view spell(E value) {
  for (const Spelling<E>& each : spellings(E{})) {
    if (each.value == value) return each.word;
  }
  throw std::logic_error("an enumerator without a spelling");
}

}  // namespace trainer
