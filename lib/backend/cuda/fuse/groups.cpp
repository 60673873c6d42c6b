#include "backend/cuda/fuse/groups.h"

#include <utility>

namespace trainer::backend::cuda {

void Grouping::take(const std::vector<int>& nodes, int at, Group group) {
  for (const int node : nodes) taken_[static_cast<std::size_t>(node)] = true;
  at_.emplace(at, std::move(group));
}

std::vector<Group> Grouping::groups() const {
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
