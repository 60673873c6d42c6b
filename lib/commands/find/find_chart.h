// The charts of `trainer find --plot`.
#pragma once

#include "commands/find/find.h"
#include "results/page/svg.h"

namespace trainer::commands {

// Returns the loss, and the smoothed loss, over the learning rate.
results::Chart make_chart(const RangeTest& test);
// Returns the throughput over the batch size.
results::Chart make_chart(const BatchSizes& sizes);

}  // namespace trainer::commands
