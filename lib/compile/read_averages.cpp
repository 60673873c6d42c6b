#include "compile/passes.h"

namespace trainer::compile {

Graph read_averages(Graph graph, const Options& options) {
  if (options.update.ema <= 0) return graph;
  for (Value& value : graph.values) {
    if (value.role != Role::kParameter || !value.trainable) continue;
    value.role = Role::kSlot;
    value.name += "/average";
    value.trainable = false;
  }
  return graph;
}

}  // namespace trainer::compile
