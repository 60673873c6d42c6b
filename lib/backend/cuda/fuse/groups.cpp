#include "backend/cuda/fuse/groups.h"

namespace trainer::backend::cuda {

std::vector<Group> find_groups(const graph::Graph& graph) {
  Grouping grouping(graph);
  fuse_residual_sums(grouping);
  fuse_residual_gradients(grouping);
  return grouping.groups();
}

}  // namespace trainer::backend::cuda
