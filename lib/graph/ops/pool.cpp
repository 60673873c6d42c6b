#include "graph/op_text.h"
#include "graph/rules.h"

namespace trainer::graph::rules {
namespace {

const char* kind_text(Pool::Kind kind) { return kind == Pool::Kind::kMax ? "max" : "average"; }

}  // namespace

const char* name(const Pool&) { return "pool"; }
std::string text(const Pool& op) {
  return words({kind_text(op.kind), window_text(op.window), flag(op.keep_index, "index")});
}
std::int64_t flops(const Pool&, const Operands&) { return 0; }
int alias(const Pool&, int) { return -1; }

Outputs infer(const Pool& op, const Site& site) {
  expect_inputs(site, 1);
  const Typed& x = image(site, 0);
  const Shape y = slide_pool(site, op.window, x.shape);
  // The winner's position has to fit into a byte.
  if (op.kind == Pool::Kind::kMax && op.window.size[0] * op.window.size[1] > 256) {
    fail(site, "a max pooling window of ", op.window.size[0], "x", op.window.size[1],
         " is larger than 256 pixels; use global_max_pooling, or two poolings in a row");
  }
  Outputs outputs{{y, x.type}};
  if (op.keep_index) outputs.push_back({y, DType::kUInt8});
  return outputs;
}

Gradients differentiate(const Pool& op, GradientSite& site) {
  if (site.dy() == kNoValue || !site.wants(0)) return {kNoValue};
  const PoolBackward backward{op.kind, op.window, site.shape_of(site.x(0)), {}};
  if (op.kind == Pool::Kind::kAverage) return {site.emit1(backward, {site.dy()})};
  if (!op.keep_index) {
    Pool with_index = op;
    with_index.keep_index = true;
    site.extend(with_index);
  }
  return {site.emit1(backward, {site.dy(), site.y(1)})};
}

const char* name(const PoolBackward&) { return "pool_backward"; }
std::string text(const PoolBackward& op) {
  return words({kind_text(op.kind), window_text(op.window), activation_text(op.activation)});
}
std::int64_t flops(const PoolBackward&, const Operands&) { return 0; }
int alias(const PoolBackward&, int) { return -1; }

Outputs infer(const PoolBackward& op, const Site& site) {
  std::size_t count = op.kind == Pool::Kind::kMax ? 2 : 1;
  if (!op.activation.linear()) ++count;
  expect_inputs(site, count);
  const Typed& dy = image(site, 0);
  const Shape y = slide_pool(site, op.window, op.input);
  expect_shape(site, 0, y, "gradient of the output");
  for (std::size_t i = 1; i < count; ++i) expect_shape(site, i, y, "index or output");
  return {{op.input, dy.type}};
}

const char* name(const GlobalPool&) { return "global_pool"; }
std::string text(const GlobalPool& op) { return kind_text(op.kind); }
std::int64_t flops(const GlobalPool&, const Operands&) { return 0; }
int alias(const GlobalPool&, int) { return -1; }

Outputs infer(const GlobalPool&, const Site& site) {
  expect_inputs(site, 1);
  const Typed& x = image(site, 0);
  return {{{kBatch, x.shape[3]}, x.type}};
}

Gradients differentiate(const GlobalPool& op, GradientSite& site) {
  if (site.dy() == kNoValue || !site.wants(0)) return {kNoValue};
  const GlobalPoolBackward backward{op.kind, site.shape_of(site.x(0))};
  if (op.kind == Pool::Kind::kAverage) return {site.emit1(backward, {site.dy()})};
  return {site.emit1(backward, {site.dy(), site.x(0), site.y()})};
}

const char* name(const GlobalPoolBackward&) { return "global_pool_backward"; }
std::string text(const GlobalPoolBackward& op) { return kind_text(op.kind); }
std::int64_t flops(const GlobalPoolBackward&, const Operands&) { return 0; }
int alias(const GlobalPoolBackward&, int) { return -1; }

Outputs infer(const GlobalPoolBackward& op, const Site& site) {
  const bool max = op.kind == Pool::Kind::kMax;
  expect_inputs(site, max ? 3 : 1);
  const Shape y{kBatch, op.input[3]};
  expect_shape(site, 0, y, "gradient of the output");
  if (max) {
    expect_shape(site, 1, op.input, "input");
    expect_shape(site, 2, y, "output");
  }
  return {{op.input, site.inputs[0].type}};
}

Gradients differentiate(const PoolBackward&, GradientSite& site) { no_gradient(site); }
Gradients differentiate(const GlobalPoolBackward&, GradientSite& site) { no_gradient(site); }

}  // namespace trainer::graph::rules
