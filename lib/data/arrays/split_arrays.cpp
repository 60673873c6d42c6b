#include "data/arrays/split_arrays.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/error.h"
#include "data/split_folders.h"

namespace trainer::data {
namespace {

constexpr std::array<std::string_view, 5> kImageWords{"x", "images", "image", "imgs", "img"};
constexpr std::array<std::string_view, 5> kLabelWords{"y", "labels", "label", "targets", "target"};

using Words = std::array<std::string_view, 5>;

bool has_word(const std::string& name, const Words& words) {
  return std::ranges::any_of(words_in(name), [&](const std::string& word) {
    return std::ranges::find(words, word) != words.end();
  });
}

// Returns the name of the images or labels of a split; "" for none. `words` are those for images or
// labels.
std::string find_name(const std::string& source, const std::vector<std::string>& held, Split split,
                      bool only_split, const Words& words) {
  const std::string name = to_string(split);
  for (const std::string& usual : {concat(words[0], '_', name), concat(name, '_', words[1])}) {
    if (std::ranges::find(held, usual) != held.end()) return usual;
  }
  const auto find_all = [&](std::optional<Split> wanted) {
    std::vector<std::string> found;
    for (const std::string& array : held) {
      if (find_split_in_name(array) == wanted && has_word(array, words)) found.push_back(array);
    }
    return found;
  };
  std::vector<std::string> found = find_all(split);
  if (found.empty() && only_split) found = find_all(std::nullopt);
  if (found.size() > 1) {
    const bool images = words == kImageWords;
    throw DataError(source, "contains the arrays ", join_first(found, 4), " for the ",
                    images ? "images" : "labels", " of the ", name,
                    " split; name one of them with data.", name, images ? ".images" : ".labels");
  }
  return found.empty() ? "" : found[0];
}

}  // namespace

SplitArrays find_split_arrays(const std::string& source, const std::vector<std::string>& held,
                              Split split, bool only_split) {
  return {find_name(source, held, split, only_split, kImageWords),
          find_name(source, held, split, only_split, kLabelWords)};
}

}  // namespace trainer::data
