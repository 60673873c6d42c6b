#include "graph/ops/pool.h"

#include "graph/contexts.h"

namespace trainer::graph {
namespace {

const char* kind_text(Pool::Kind kind) { return kind == Pool::Kind::kMax ? "max" : "average"; }

}  // namespace

std::string Pool::text() const {
  return words({kind_text(kind), window.text(), flag(keep_index, "index")});
}

Outputs Pool::infer(const ShapeContext& context) const {
  expect_inputs(context, 1);
  const Typed& x = image(context, 0);
  const Shape y = slide_pool(context, window, x.shape);
  // The winner's position has to fit into a byte.
  if (kind == Pool::Kind::kMax && window.size[0] * window.size[1] > 256) {
    fail(context, "a max pooling window of ", window.size[0], "x", window.size[1],
         " is larger than 256 pixels; use global_max_pool, or two poolings in a row");
  }
  Outputs outputs{{y, x.type}};
  if (keep_index) outputs.push_back({y, DType::kUInt8});
  return outputs;
}

Gradients Pool::differentiate(GradientContext& context) const {
  const PoolBackward backward{kind, window, context.shape_of(context.x(0)), {}};
  if (kind == Pool::Kind::kAverage) return {context.emit1(backward, {context.dy()})};
  if (!keep_index) {
    Pool with_index = *this;
    with_index.keep_index = true;
    context.extend(with_index);
  }
  return {context.emit1(backward, {context.dy(), context.y(1)})};
}

std::string PoolBackward::text() const {
  return words({kind_text(kind), window.text(), activation.text()});
}

Outputs PoolBackward::infer(const ShapeContext& context) const {
  std::size_t count = kind == Pool::Kind::kMax ? 2 : 1;
  if (!activation.linear()) ++count;
  expect_inputs(context, count);
  const Typed& dy = image(context, 0);
  const Shape y = slide_pool(context, window, input);
  expect_shape(context, 0, y, "gradient of the output");
  for (std::size_t i = 1; i < count; ++i) expect_shape(context, i, y, "index or output");
  return {{input, dy.type}};
}

std::string GlobalPool::text() const { return kind_text(kind); }

Outputs GlobalPool::infer(const ShapeContext& context) const {
  expect_inputs(context, 1);
  const Typed& x = image(context, 0);
  return {{{kBatch, x.shape[3]}, x.type}};
}

Gradients GlobalPool::differentiate(GradientContext& context) const {
  const GlobalPoolBackward backward{kind, context.shape_of(context.x(0))};
  if (kind == Pool::Kind::kAverage) return {context.emit1(backward, {context.dy()})};
  return {context.emit1(backward, {context.dy(), context.x(0), context.y()})};
}

std::string GlobalPoolBackward::text() const { return kind_text(kind); }

Outputs GlobalPoolBackward::infer(const ShapeContext& context) const {
  const bool max = kind == Pool::Kind::kMax;
  expect_inputs(context, max ? 3 : 1);
  const Shape y{kBatch, input[3]};
  expect_shape(context, 0, y, "gradient of the output");
  if (max) {
    expect_shape(context, 1, input, "input");
    expect_shape(context, 2, y, "output");
  }
  return {{input, context.inputs[0].type}};
}

}  // namespace trainer::graph
