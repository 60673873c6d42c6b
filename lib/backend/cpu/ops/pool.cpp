#include "backend/cpu/simd/ops/pool.inl"

#include "backend/cpu/ops/kernel_helpers.h"
#include "backend/cpu/ops/thread_parts.h"

namespace trainer::backend::cpu {
namespace {

using graph::Pool;
using simd::PoolKernels;
using simd::PoolShape;

PoolShape pool_shape(const graph::Window& w, const Shape& x, const Shape& y, const Lowering& l) {
  return {.planes = x[0] * l.machine().count_blocks(x[3]),
          .h = x[1],
          .w = x[2],
          .oh = y[1],
          .ow = y[2],
          .kh = w.size[0],
          .kw = w.size[1],
          .sh = w.stride[0],
          .sw = w.stride[1],
          .dh = w.dilation[0],
          .dw = w.dilation[1],
          .top = w.pad_before[0],
          .left = w.pad_before[1]};
}

// Global poolings have one window of the whole image.
PoolShape global_shape(const Shape& x, const Lowering& l) {
  return pool_shape({{x[1], x[2]}}, x, {x[0], 1, 1, x[3]}, l);
}
simd::PlaneShape to_planes(const PoolShape& shape) { return {1, shape.planes, shape.h * shape.w}; }

// A part of the planes, for one thread.
template <class T>
struct PoolPart {
  const PoolKernels<T>& kernels;
  PoolShape shape;
  std::int64_t in, out;  // the first element of the large image and of the pooled one
  int thread;
};

// Adds an instruction that calls run(part, context) for parts of the planes.
template <class Run>
void emit_pool_kernels(Lowering& l, DType type, const PoolShape& all, const Run& run) {
  const std::int64_t in = all.h * all.w * l.machine().block;
  const std::int64_t out = all.oh * all.ow * l.machine().block;
  emit_kernels<PoolKernels>(
      l, type, [=]<class T>(const CallContext& c, const PoolKernels<T>& kernels) {
        over_parts(c, all.planes, [&](std::int64_t first, std::int64_t count, int thread) {
          PoolPart<T> part{kernels, all, first * in, first * out, thread};
          part.shape.planes = count;
          run(part, c);
        });
      });
}

}  // namespace

template <>
void lower(const graph::Pool& op, Lowering& l) {
  const Operand x = l.input(0, Layout::kBlocked);
  const Operand y = l.output(0, Layout::kBlocked);
  const PoolShape shape = pool_shape(op.window, x.shape, y.shape, l);
  const bool max = op.kind == Pool::Kind::kMax;
  const bool keep = max && op.keep_index && l.is_output_read(1);
  const BufferId index = keep ? l.output(1, Layout::kBlocked).buffer : -1;
  emit_pool_kernels(l, x.type, shape, [=]<class T>(const PoolPart<T>& part, const CallContext& c) {
    const T* from = c.at<T>(x.buffer) + part.in;
    T* to = c.at<T>(y.buffer) + part.out;
    if (max) {
      part.kernels.max_pool(part.shape, from, to,
                            index >= 0 ? c.at<std::uint8_t>(index) + part.out : nullptr);
    } else {
      part.kernels.average_pool(part.shape, from, to);
    }
  });
}

template <>
void lower(const graph::PoolBackward& op, Lowering& l) {
  Operand dy = l.input(0, Layout::kBlocked);
  const bool max = op.kind == Pool::Kind::kMax;
  const std::size_t y_input = max ? 2 : 1;
  BufferId y = dy.buffer;
  if (!op.activation.linear()) {
    const Operand pooled = l.input(y_input, Layout::kBlocked);
    if (max && is_fusable(op.activation)) {
      y = pooled.buffer;
    } else {
      // Our kernels apply fused activations only, and only for maxima.
      dy = before_activation(l, op.activation, pooled, dy);
      y = dy.buffer;
    }
  }
  const BufferId index = max ? l.input(1).buffer : -1;
  const Operand dx = l.output(0, Layout::kBlocked);
  const PoolShape shape = pool_shape(op.window, dx.shape, dy.shape, l);
  const std::int64_t plane_floats = shape.h * shape.w * l.machine().block;
  const BufferId planes = l.scratch(plane_floats * l.machine().threads * 4);
  const simd::FusedActivation activation = fused_activation(op.activation);
  const float alpha = op.activation.alpha;
  emit_pool_kernels(l, dy.type, shape, [=]<class T>(const PoolPart<T>& part, const CallContext& c) {
    const T* from = c.at<T>(dy.buffer) + part.out;
    T* to = c.at<T>(dx.buffer) + part.in;
    float* plane = c.at<float>(planes) + part.thread * plane_floats;
    if (max) {
      part.kernels.max_pool_backward(part.shape, from, c.at<std::uint8_t>(index) + part.out,
                                     c.at<T>(y) + part.out, activation, alpha, to, plane);
    } else {
      part.kernels.average_pool_backward(part.shape, from, to, plane);
    }
  });
}

template <>
void lower(const graph::GlobalPool& op, Lowering& l) {
  const bool max = op.kind == Pool::Kind::kMax;
  const Operand x = l.input(0, Layout::kBlocked);
  const Operand y = l.output(0, Layout::kBlocked);
  const PoolShape shape = global_shape(x.shape, l);
  emit_pool_kernels(l, x.type, shape, [=]<class T>(const PoolPart<T>& part, const CallContext& c) {
    const auto run = max ? part.kernels.global_max : part.kernels.global_average;
    run(to_planes(part.shape), c.at<T>(x.buffer) + part.in, c.at<T>(y.buffer) + part.out);
  });
}

template <>
void lower(const graph::GlobalPoolBackward& op, Lowering& l) {
  const Operand dy = l.input(0, Layout::kBlocked);
  const bool max = op.kind == Pool::Kind::kMax;
  const BufferId x = max ? l.input(1, Layout::kBlocked).buffer : -1;
  const BufferId y = max ? l.input(2, Layout::kBlocked).buffer : -1;
  const Operand dx = l.output(0, Layout::kBlocked);
  const PoolShape shape = global_shape(dx.shape, l);
  emit_pool_kernels(l, dy.type, shape, [=]<class T>(const PoolPart<T>& part, const CallContext& c) {
    const T* from = c.at<T>(dy.buffer) + part.out;
    T* to = c.at<T>(dx.buffer) + part.in;
    if (max) {
      part.kernels.global_max_backward(to_planes(part.shape), c.at<T>(x) + part.in,
                                       c.at<T>(y) + part.out, from, to);
    } else {
      part.kernels.global_average_backward(to_planes(part.shape), from, to);
    }
  });
}

}  // namespace trainer::backend::cpu
