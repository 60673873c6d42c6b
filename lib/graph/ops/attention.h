#pragma once

#include <string>

#include "graph/rules.h"

namespace trainer::graph {

// qkv [batch, tokens, 3 * channels] -> y [batch, tokens, channels], and with `log_sums`
// [batch, heads, tokens] float32. The last dimension of qkv holds the queries, then the keys, then
// the values, each head by head. Each head computes softmax(queries keys^T / sqrt(channels /
// heads)) values. A log-sum is the logarithm of the sum of the exponentials of a query's row.
struct Attention {
  std::int64_t heads = 1;
  bool log_sums = false;

  static constexpr const char* kName = "attention";
  std::string text() const;
  Outputs infer(const ShapeContext& context) const;
  Gradients differentiate(GradientContext& context) const;
  std::int64_t flops(const NodeShapes& shapes) const;
  int alias(int) const { return -1; }
};

// qkv, y, log_sums, dy -> dqkv
struct AttentionBackward {
  std::int64_t heads = 1;

  static constexpr const char* kName = "attention_backward";
  std::string text() const;
  Outputs infer(const ShapeContext& context) const;
  Gradients differentiate(GradientContext& context) const { no_gradient(context); }
  std::int64_t flops(const NodeShapes& shapes) const;
  int alias(int) const { return -1; }
};

}  // namespace trainer::graph
