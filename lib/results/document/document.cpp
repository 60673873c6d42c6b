#include "results/document/document.h"

#include <iterator>

namespace trainer::results {

Table make_list(std::string caption, const std::vector<std::pair<std::string, std::string>>& list) {
  Table table({"name", "value"}, {}, std::move(caption));
  for (const auto& [name, value] : list) table.add({name, value});
  return table;
}

void Document::append(Document part) {
  std::move(part.blocks.begin(), part.blocks.end(), std::back_inserter(blocks));
}

Charts list_charts(const Document& document) {
  Charts all;
  for (const Block& block : document.blocks) {
    const auto* charts = std::get_if<Charts>(&block.content);
    if (charts != nullptr) all.insert(all.end(), charts->begin(), charts->end());
  }
  return all;
}

}  // namespace trainer::results
