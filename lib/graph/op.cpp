#include "graph/op.h"

namespace trainer::graph {

const char* name_of(const Op& op) {
  return std::visit([](const auto& each) { return each.kName; }, op);
}

std::string describe(const Op& op) {
  return std::visit([](const auto& each) { return each.text(); }, op);
}

}  // namespace trainer::graph
