// Draws a confusion matrix as a picture.
#pragma once

#include <string>
#include <vector>

#include "base/files/files.h"
#include "engine/metrics/metrics.h"

namespace trainer::hooks {

struct Picture {
  int width = 0, height = 0;
  int left = 0, top = 0, cell = 0;  // corner of the first cell, and the side of every cell
  Bytes png;
};

// Draws one square per cell. Rows are the true classes, from the top, and columns the predicted
// classes. A darker square is a larger share of its row. Right predictions are blue and wrong ones
// are red. Adds the names of the classes, or their numbers, and the counts, where they fit.
Picture draw_confusion(const engine::Metrics& metrics,
                       const std::vector<std::string>& classes = {});

}  // namespace trainer::hooks
