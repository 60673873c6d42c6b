#include "results/run_files/data_name.h"

#include "base/text.h"

namespace trainer::results {

std::string find_leaf(const std::vector<std::pair<std::string, std::string>>& leaves,
                      const std::string& key) {
  for (const auto& [name, value] : leaves) {
    if (name == key) return value == "\"\"" || value == "null" ? "" : value;
  }
  return "";
}

std::string find_data_name(const std::vector<std::pair<std::string, std::string>>& leaves) {
  for (const char* key :
       {"data.train.path", "data.train.images", "data.train.glob", "data.path", "data.format"}) {
    if (std::string value = find_leaf(leaves, key); !value.empty()) return printable(value);
  }
  return "";
}

}  // namespace trainer::results
