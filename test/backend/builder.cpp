#include <variant>

#include "backend/harness.h"
#include "base/error.h"

namespace trainer::test {

using graph::ValueId;

ValueId Builder::filled(graph::Value value, const Fill& fill) {
  fills.resize(graph.values.size());
  fills.push_back(fill);
  return graph.add_value(std::move(value));
}

ValueId Builder::input(Shape shape, Fill fill) { return input(std::move(shape), type_, fill); }

ValueId Builder::input(Shape shape, DType type, Fill fill) {
  graph::Value value;
  value.name = concat("input", graph.inputs.size());
  value.shape = std::move(shape);
  value.type = type;
  value.role = graph::Role::kInput;
  graph.inputs.push_back(filled(std::move(value), fill));
  return graph.inputs.back();
}

ValueId Builder::parameter(Shape shape, Fill fill) {
  graph::Value value;
  value.name = concat("parameter", graph.values.size());
  value.shape = std::move(shape);
  value.role = graph::Role::kParameter;
  return filled(std::move(value), fill);
}

std::vector<ValueId> Builder::add(const graph::Op& op, const std::vector<ValueId>& inputs) {
  const bool folds = std::holds_alternative<graph::FoldBatchNorm>(op);
  auto made = graph.add(op, inputs, concat(graph::name_of(op), graph.nodes.size()), {},
                        folds ? graph::Phase::kPrepare : graph::Phase::kForward);
  for (const ValueId id : made) {
    if (folds) graph[id].role = graph::Role::kDerived;
  }
  if (std::holds_alternative<graph::Preprocess>(op)) graph[made[0]].type = type_;
  fills.resize(graph.values.size());
  return made;
}

}  // namespace trainer::test
