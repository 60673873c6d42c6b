#include "backend/cpu/simd/ops/pool.inl"

#include "backend/cpu/ops/kernel_helpers.h"
#include "backend/cpu/ops/thread_parts.h"

namespace trainer::backend::cpu {
namespace {

using graph::Pool;
using simd::PlaneShape;
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

PlaneShape plane_shape(const Shape& x, const Lowering& l) {
  return {x[0], l.machine().count_blocks(x[3]), x[1] * x[2]};
}

// Calls run(planes, first element of x, of y, thread) for parts of the planes.
template <class Run>
void over_pools(const CallContext& c, const PoolShape& all, std::int64_t block, const Run& run) {
  over_parts(c, all.planes, [&](std::int64_t first, std::int64_t count, int thread) {
    PoolShape part = all;
    part.planes = count;
    run(part, first * all.h * all.w * block, first * all.oh * all.ow * block, thread);
  });
}

// The same for planes that are each pooled to one pixel.
template <class Run>
void over_global_pools(const CallContext& c, const PlaneShape& all, std::int64_t block,
                       const Run& run) {
  over_parts(c, all.n * all.blocks, [&](std::int64_t first, std::int64_t count, int) {
    run(PlaneShape{1, count, all.pixels}, first * all.pixels * block, first * block);
  });
}

}  // namespace

template <>
void lower(const graph::Pool& op, Lowering& l) {
  const Operand x = l.input(0, Layout::kBlocked);
  const Operand y = l.output(0, Layout::kBlocked);
  const PoolShape shape = pool_shape(op.window, x.shape, y.shape, l);
  const bool keep = op.kind == Pool::Kind::kMax && op.keep_index && l.is_output_read(1);
  const BufferId index = keep ? l.output(1, Layout::kBlocked).buffer : -1;
  const std::int64_t block = l.machine().block;
  with_type(x.type, [&]<class T>() {
    if (op.kind == Pool::Kind::kMax) {
      l.emit(l.kernels().name,
             [=, run = find_kernels<simd::PoolKernels<T>>(l).max_pool](const CallContext& c) {
               over_pools(c, shape, block,
                          [&](const PoolShape& part, std::int64_t in, std::int64_t out, int) {
                            run(part, c.at<T>(x.buffer) + in, c.at<T>(y.buffer) + out,
                                index >= 0 ? c.at<std::uint8_t>(index) + out : nullptr);
                          });
             });
    } else {
      l.emit(l.kernels().name,
             [=, run = find_kernels<simd::PoolKernels<T>>(l).average_pool](const CallContext& c) {
               over_pools(c, shape, block,
                          [&](const PoolShape& part, std::int64_t in, std::int64_t out, int) {
                            run(part, c.at<T>(x.buffer) + in, c.at<T>(y.buffer) + out);
                          });
             });
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
      Operand g = dy;
      g.buffer = l.scratch(l.padded_elements(dy.shape, dy.layout) *
                           static_cast<std::int64_t>(size_of(dy.type)));
      activate_backward(l, op.activation, pooled, dy, g);
      l.use(g.buffer);
      dy = g;
      y = g.buffer;
    }
  }
  const BufferId index = max ? l.input(1).buffer : -1;
  const Operand dx = l.output(0, Layout::kBlocked);
  const PoolShape shape = pool_shape(op.window, dx.shape, dy.shape, l);
  const std::int64_t block = l.machine().block, plane_floats = shape.h * shape.w * block;
  const BufferId planes = l.scratch(plane_floats * l.machine().threads * 4);
  const simd::FusedActivation activation = fused_activation(op.activation);
  with_type(dy.type, [&]<class T>() {
    if (max) {
      l.emit(l.kernels().name, [=, alpha = op.activation.alpha,
                                run = find_kernels<simd::PoolKernels<T>>(l).max_pool_backward](
                                   const CallContext& c) {
        over_pools(c, shape, block,
                   [&](const PoolShape& part, std::int64_t in, std::int64_t out, int thread) {
                     run(part, c.at<T>(dy.buffer) + out, c.at<std::uint8_t>(index) + out,
                         c.at<T>(y) + out, activation, alpha, c.at<T>(dx.buffer) + in,
                         c.at<float>(planes) + thread * plane_floats);
                   });
      });
    } else {
      l.emit(
          l.kernels().name, [=, run = find_kernels<simd::PoolKernels<T>>(l).average_pool_backward](
                                const CallContext& c) {
            over_pools(c, shape, block,
                       [&](const PoolShape& part, std::int64_t in, std::int64_t out, int thread) {
                         run(part, c.at<T>(dy.buffer) + out, c.at<T>(dx.buffer) + in,
                             c.at<float>(planes) + thread * plane_floats);
                       });
          });
    }
  });
}

template <>
void lower(const graph::GlobalPool& op, Lowering& l) {
  const Operand x = l.input(0, Layout::kBlocked);
  const Operand y = l.output(0, Layout::kBlocked);
  const PlaneShape shape = plane_shape(x.shape, l);
  const std::int64_t block = l.machine().block;
  with_type(x.type, [&]<class T>() {
    const auto run = op.kind == Pool::Kind::kMax
                         ? find_kernels<simd::PoolKernels<T>>(l).global_max
                         : find_kernels<simd::PoolKernels<T>>(l).global_average;
    l.emit(l.kernels().name, [=](const CallContext& c) {
      over_global_pools(c, shape, block,
                        [&](const PlaneShape& part, std::int64_t in, std::int64_t out) {
                          run(part, c.at<T>(x.buffer) + in, c.at<T>(y.buffer) + out);
                        });
    });
  });
}

template <>
void lower(const graph::GlobalPoolBackward& op, Lowering& l) {
  const Operand dy = l.input(0, Layout::kBlocked);
  const bool max = op.kind == Pool::Kind::kMax;
  const BufferId x = max ? l.input(1, Layout::kBlocked).buffer : -1;
  const BufferId y = max ? l.input(2, Layout::kBlocked).buffer : -1;
  const Operand dx = l.output(0, Layout::kBlocked);
  const PlaneShape shape = plane_shape(dx.shape, l);
  const std::int64_t block = l.machine().block;
  with_type(dy.type, [&]<class T>() {
    const auto& kernels = find_kernels<simd::PoolKernels<T>>(l);
    l.emit(l.kernels().name, [=, &kernels](const CallContext& c) {
      over_global_pools(
          c, shape, block, [&](const PlaneShape& part, std::int64_t in, std::int64_t out) {
            const T* gradient = c.at<T>(dy.buffer) + out;
            if (max) {
              kernels.global_max_backward(part, c.at<T>(x) + in, c.at<T>(y) + out, gradient,
                                          c.at<T>(dx.buffer) + in);
            } else {
              kernels.global_average_backward(part, gradient, c.at<T>(dx.buffer) + in);
            }
          });
    });
  });
}

}  // namespace trainer::backend::cpu
