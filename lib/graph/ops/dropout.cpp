#include "graph/ops/dropout.h"

#include "graph/contexts.h"

namespace trainer::graph {

std::string Dropout::text() const {
  const char* of_units = unit == Dropout::Unit::kChannel  ? " of channels"
                         : unit == Dropout::Unit::kSample ? " of samples"
                                                          : "";
  return concat("rate ", rate, " layer ", layer, of_units);
}

Outputs Dropout::infer(const ShapeContext& context) const {
  expect_inputs(context, 1);
  if (!(rate >= 0 && rate < 1)) {
    fail(context, "rate is ", rate, ", expected a number from 0 up to, but not including, 1");
  }
  return {floats(context, 0)};
}

Gradients Dropout::differentiate(GradientContext& context) const {
  return {context.emit1(*this, {context.dy()})};
}

}  // namespace trainer::graph
