// The parts of an HTML report, inside the folder.
#pragma once

#include <string>
#include <vector>

#include "results/page/svg.h"

namespace trainer::results {

// A whole document. It is well-formed XML too, so that any tool can read it.
std::string page(const std::string& title, const std::string& body);

std::string heading(const std::string& text);     // begins a section
std::string subheading(const std::string& text);  // begins a part of a section

// The first row is the header. Cells are plain text; columns from `numbers` on are aligned to the
// right.
using Cells = std::vector<std::vector<std::string>>;
std::string table(const std::string& caption, const Cells& cells, std::size_t numbers);
// Returns a table of two columns: names and values.
std::string list(const std::string& caption,
                 const std::vector<std::pair<std::string, std::string>>& entries);
// Returns a section that is closed until the reader opens it.
std::string folded(const std::string& summary, const std::string& content);
// Returns the chart and, folded, a table of its points.
std::string figure(const Chart& chart);
// Returns the figures side by side, as many as fit the width of the page.
std::string chart_grid(const std::vector<Chart>& charts);

}  // namespace trainer::results
