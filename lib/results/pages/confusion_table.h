// The confusion matrix of a report, for at most some tens of classes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trainer::results {

// Returns a table with a row per true class and a column per predicted class. `counts` has the
// samples row by row. The colour of a cell is stronger for a larger share of its row.
std::string confusion_table(const std::vector<std::string>& classes,
                            const std::vector<std::int64_t>& counts);

}  // namespace trainer::results
