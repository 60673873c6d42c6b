// A confusion matrix as a picture.
#pragma once

#include <cstdint>

#include "base/files.h"
#include "engine/metrics.h"

namespace trainer::hooks {

struct Picture {
  int width = 0, height = 0;
  Bytes png;
};

// One square a cell, rows true classes from the top, columns predicted ones; the darker, the larger
// the cell's share of its row. Right predictions are blue, wrong ones red.
Picture draw_confusion(const engine::Metrics& metrics);

}  // namespace trainer::hooks
