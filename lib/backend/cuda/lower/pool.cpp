#include "backend/cuda/kernels/pool.h"

#include "backend/cuda/lowering.h"

namespace trainer::backend::cuda {
namespace {

PoolShape shape_of(const Operand& image, const graph::Window& window) {
  return {image.n(), image.h(), image.w(), image.c(), window};
}

}  // namespace

template <>
void lower(const graph::Pool& op, Lowering& l) {
  const Operand x = l.input(0);
  const Operand y = l.output(0);
  const PoolShape shape = shape_of(x, op.window);
  if (op.kind == graph::Pool::Kind::kAverage) {
    return l.emit("kernel", [=](const CallContext& c) {
      average_pool(shape, c.at(x.buffer), c.at(y.buffer), x.type, c.stream);
    });
  }
  const BufferId index = op.keep_index ? l.output(1).buffer : -1;
  l.emit("kernel", [=](const CallContext& c) {
    max_pool(shape, c.at(x.buffer), c.at(y.buffer), index < 0 ? nullptr : c.at<std::uint8_t>(index),
             x.type, c.stream);
  });
}

template <>
void lower(const graph::PoolBackward& op, Lowering& l) {
  const Operand dx = l.output(0);
  const Operand dy = l.input(0, dx.type);
  const bool max = op.kind == graph::Pool::Kind::kMax;
  const BufferId index = max ? l.input(1).buffer : -1;
  const BufferId y = op.activation.linear() ? -1 : l.input(max ? 2 : 1, dx.type).buffer;
  const PoolShape shape = shape_of(dx, op.window);
  l.emit("kernel", [=, activation = op.activation](const CallContext& c) {
    const void* output = y < 0 ? nullptr : c.at(y);
    if (max) {
      max_pool_backward(shape, c.at(dy.buffer), c.at<std::uint8_t>(index), output, activation,
                        c.at(dx.buffer), dx.type, c.stream);
    } else {
      average_pool_backward(shape, c.at(dy.buffer), output, activation, c.at(dx.buffer), dx.type,
                            c.stream);
    }
  });
}

template <>
void lower(const graph::GlobalPool& op, Lowering& l) {
  const Operand x = l.input(0);
  const Operand y = l.output(0);
  const auto run = op.kind == graph::Pool::Kind::kMax ? global_max : global_average;
  l.emit("kernel", [=](const CallContext& c) {
    run(c.at(x.buffer), c.at(y.buffer), x.n(), x.h() * x.w(), x.c(), x.type, c.stream);
  });
}

template <>
void lower(const graph::GlobalPoolBackward& op, Lowering& l) {
  const Operand dx = l.output(0);
  const Operand dy = l.input(0, dx.type);
  const std::int64_t pixels = dx.h() * dx.w();
  if (op.kind == graph::Pool::Kind::kAverage) {
    return l.emit("kernel", [=](const CallContext& c) {
      global_average_backward(c.at(dy.buffer), c.at(dx.buffer), dx.n(), pixels, dx.c(), dx.type,
                              c.stream);
    });
  }
  const Operand x = l.input(1, dx.type), y = l.input(2, dx.type);
  l.emit("kernel", [=](const CallContext& c) {
    global_max_backward(c.at(dy.buffer), c.at(x.buffer), c.at(y.buffer), c.at(dx.buffer), dx.n(),
                        pixels, dx.c(), dx.type, c.stream);
  });
}

}  // namespace trainer::backend::cuda
