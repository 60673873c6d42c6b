#include "commands/plan/step_work.h"

#include "compile/compile.h"
#include "optim/optim.h"

namespace trainer::commands {
namespace {

std::int64_t count_flops(const graph::Graph& graph, graph::Phase phase) {
  std::int64_t flops = 0;
  for (const graph::Node& node : graph.nodes) {
    if (node.phase == phase) flops += graph::flops(graph, node);
  }
  return flops;
}

}  // namespace

StepWork step_work(const graph::Graph& model, const config::Config& config) {
  compile::Options options;
  options.update = optim::update_spec(config.optimizer).update;
  const compile::FrozenSplit split = compile::split_frozen(model, options);
  const bool frozen = split.reason.empty();
  const graph::Graph training = compile::training_graph(frozen ? split.suffix : model, options);
  StepWork work;
  if (frozen) work.frozen = count_flops(split.prefix, graph::Phase::kForward);
  work.forward = count_flops(training, graph::Phase::kForward);
  work.backward = count_flops(training, graph::Phase::kBackward);
  return work;
}

}  // namespace trainer::commands
