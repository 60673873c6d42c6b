#include "backend/cuda/fuse/groups.h"

#include <stdexcept>

#include "base/error.h"

namespace trainer::backend::cuda {

void Grouping::take(const std::vector<int>& nodes, int at, Group group) {
  for (const int node : nodes) {
    taken_[static_cast<std::size_t>(node)] = true;
    place_[static_cast<std::size_t>(node)] = at;
  }
  at_.emplace(at, group);
}

// A pattern that moved a node before what it reads would compute from memory that nothing has
// written.
void Grouping::check_order() const {
  for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
    for (const graph::ValueId id : graph_.nodes[i].inputs) {
      const int producer = graph_.producer(id);
      if (producer < 0 || place_[static_cast<std::size_t>(producer)] <= place_[i]) continue;
      throw std::logic_error(concat("the fusion of ", graph_.nodes[i].name, " runs before ",
                                    graph_.nodes[static_cast<std::size_t>(producer)].name,
                                    ", whose result it reads; internal error, please report it"));
    }
  }
}

std::vector<Group> Grouping::groups() const {
  check_order();
  std::vector<Group> all;
  for (int i = 0; i < static_cast<int>(graph_.nodes.size()); ++i) {
    if (const auto found = at_.find(i); found != at_.end()) {
      all.push_back(found->second);
    } else if (!is_taken(i)) {
      all.emplace_back(SingleNode{&graph_.nodes[static_cast<std::size_t>(i)]});
    }
  }
  return all;
}

std::vector<Group> find_groups(const graph::Graph& graph) {
  Grouping grouping(graph);
  fuse_residual_sums(grouping);
  fuse_residual_gradients(grouping);
  return grouping.groups();
}

}  // namespace trainer::backend::cuda
