// Widths of texts on a terminal, where each character takes one column.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace trainer {

// Returns the number of characters of a text in UTF-8.
std::size_t count_columns(std::string_view text);

// Returns the text, or its first `columns` characters.
std::string first_columns(std::string_view text, std::size_t columns);

}  // namespace trainer
