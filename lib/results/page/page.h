// The frame and the style of an HTML page.
#pragma once

#include <string>

namespace trainer::results {

// Returns a whole page with this markup as its body. It is well-formed XML too, so that any tool
// can read it.
std::string page(const std::string& title, const std::string& body);

}  // namespace trainer::results
