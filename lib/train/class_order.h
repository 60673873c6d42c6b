// Compares the order of classes of weights and data.
#pragma once

#include <string>
#include <vector>

#include "base/notice.h"
#include "model/files/import.h"

namespace trainer::train {

// Returns "; class 2 was '10', is '2'" for the first class that differs, "" for equal lists.
std::string describe_class_difference(const std::vector<std::string>& before,
                                      const std::vector<std::string>& now);

// Checks that the outputs of an imported last layer mean the classes of the data. Throws DataError
// if the file has the same classes in another order. Returns a warning if it has other classes, a
// note with the order that is assumed if it has no names, and otherwise nothing.
Notice check_class_order(const model::ImportReport& report,
                         const std::vector<std::string>& classes);

}  // namespace trainer::train
