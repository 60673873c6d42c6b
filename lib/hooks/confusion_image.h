// A confusion matrix as a picture.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/files.h"
#include "engine/metrics.h"

namespace trainer::hooks {

struct Picture {
  int width = 0, height = 0;
  int left = 0, top = 0, cell = 0;  // where the first cell lies, and how large each is
  Bytes png;
};

// One square a cell, rows true classes from the top, columns predicted ones; the darker, the larger
// the cell's share of its row. Right predictions are blue, wrong ones red. With the names of the
// classes, or their numbers, and the counts, where they fit.
Picture draw_confusion(const engine::Metrics& metrics,
                       const std::vector<std::string>& classes = {});

}  // namespace trainer::hooks
