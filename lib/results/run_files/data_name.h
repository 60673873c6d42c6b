// The name by which a config calls its data.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace trainer::results {

// Returns the value of a leaf of a config, as config::leaves() returns them; "" if it has none.
std::string find_leaf(const std::vector<std::pair<std::string, std::string>>& leaves,
                      const std::string& key);
// Returns the path of the training data, or else the format of the data; "" without both.
std::string find_data_name(const std::vector<std::pair<std::string, std::string>>& leaves);

}  // namespace trainer::results
