// The rules of an op, which each struct of graph/ops/ defines as members:
//
//   static constexpr const char* kName;
//       The name in printed graphs and messages, "conv_backward_data". No two ops share one.
//   std::string text() const;
//       The attributes for printing, "3x3 stride 2".
//   Outputs infer(const ShapeContext& context) const;
//       Shape and type of each output. Throws ConfigError at the location of the node if the
//       inputs do not fit the op.
//   Gradients differentiate(GradientContext& context) const;
//       Emits the nodes of the gradient. Returns one gradient per input; those that are not wanted
//       do not count. Called if a gradient of output 0 is given and one of an input is wanted.
//   std::int64_t flops(const NodeShapes& shapes) const;
//       Floating-point operations of one sample, two per multiply-accumulate. It is 0 for all but
//       convolutions, dense layers and attention: memory limits the other ops, not arithmetic.
//   int alias(int output) const;
//       The index of the input whose memory the output shares, or -1.
//
// The functions of graph.h apply the rules to any op. There is no default: an op that lacks a rule
// does not compile. Reasons: lib/decisions/graph.md#every-op-writes-out-all-its-rules.
#pragma once

#include <cstdint>
#include <vector>

#include "base/types.h"

namespace trainer::graph {

using ValueId = std::int32_t;
inline constexpr ValueId kNoValue = -1;

struct Typed {
  Shape shape;
  DType type;
};

using Outputs = std::vector<Typed>;
using Gradients = std::vector<ValueId>;

// The arguments of rules; see graph/contexts.h.
struct ShapeContext;
struct GradientContext;
struct NodeShapes;

// The body of differentiate() for ops that are never differentiated. Throws std::logic_error.
[[noreturn]] void no_gradient(const GradientContext& context);

}  // namespace trainer::graph
