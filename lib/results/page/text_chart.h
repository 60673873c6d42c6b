// Charts of characters for terminals.
#pragma once

#include <string>
#include <vector>

#include "results/page/svg.h"

namespace trainer::results {

struct TextChartSize {
  int columns = 40;        // the width of each line at most
  int rows = 4;            // the height of the curve, below the line of the title
  bool has_blocks = true;  // the terminal shows Unicode's block elements; otherwise ASCII
};

// Returns the title and the curves: the series with the most points as an area, those of the others
// as single points. The lowest and highest values stand at the left. Returns nothing for a chart
// without points or for a size that leaves no room.
std::vector<std::string> text_chart(const Chart& chart, const TextChartSize& size);

}  // namespace trainer::results
