// Convolutions: cuDNN's, and our own where every channel has its own kernel.
#include "backend/cuda/kernels/activation.h"
#include "backend/cuda/kernels/depthwise.h"
#include "backend/cuda/kernels/layout.h"
#include "backend/cuda/lowering.h"

namespace trainer::backend::cuda {
namespace {

using graph::is_depthwise;
using Pass = ConvolutionProblem::Pass;

// The extents of a kernel [kh, kw, in / groups, out].
struct KernelShape {
  std::int64_t positions, in, out;
  explicit KernelShape(const Shape& shape)
      : positions(shape[0] * shape[1]), in(shape[2]), out(shape[3]) {}
  std::int64_t elements() const { return positions * in * out; }
};

ConvolutionProblem make_problem(Pass pass, const Lowering& l, DType type, const Shape& image,
                                const KernelShape& kernel, const graph::Window& window,
                                std::int64_t groups) {
  ConvolutionProblem problem;
  problem.pass = pass;
  problem.type = type;
  problem.tf32 = l.tf32();
  problem.n = l.samples();
  problem.h = image[1];
  problem.w = image[2];
  problem.c = image[3];
  problem.out = kernel.out;
  problem.groups = groups;
  problem.window = window;
  return problem;
}

DepthwiseShape depthwise_shape(std::int64_t n, const Shape& image, std::int64_t out,
                               const graph::Window& window) {
  return {n, image[1], image[2], image[3], out / image[3], window};
}

void lower_depthwise(const graph::Conv& op, Lowering& l, const Operand& x, const Operand& y) {
  const DepthwiseShape shape = depthwise_shape(l.samples(), x.shape, y.c(), op.window);
  const BufferId kernel = l.input(1).buffer;
  const BufferId bias = op.bias ? l.input(2).buffer : -1;
  l.emit("depthwise kernel", [=, activation = op.activation](const CallContext& c) {
    depthwise(shape, c.at(x.buffer), c.at<float>(kernel), bias < 0 ? nullptr : c.at<float>(bias),
              activation, c.at(y.buffer), x.type, c.stream);
  });
}

}  // namespace

template <>
void lower(const graph::Conv& op, Lowering& l) {
  const Operand x = l.input(0);
  const Operand y = l.output(0);
  if (is_depthwise(op.groups, x.c())) return lower_depthwise(op, l, x, y);
  const KernelShape kernel_shape(l.input_shape(1));
  const bool relu = op.activation.kind == graph::Activation::Kind::kRelu;
  ConvolutionProblem problem =
      make_problem(Pass::kForward, l, x.type, x.shape, kernel_shape, op.window, op.groups);
  problem.bias = op.bias;
  problem.relu = relu;
  const std::shared_ptr<ConvolutionPlan> plan = l.machine().convolutions->plan(problem);
  const BufferId kernel =
      l.packed_kernel(1, x.type, kernel_shape.positions, kernel_shape.in, kernel_shape.out);
  const BufferId bias = op.bias ? l.packed_vector(2, x.type) : -1;
  const BufferId workspace = l.scratch(plan->workspace_bytes());
  const bool separate = !relu && !op.activation.linear();
  if (separate) l.add_traffic(2 * y.bytes());
  l.emit(plan->describe(), [=, activation = op.activation](const CallContext& c) {
    plan->run(c.at(x.buffer), c.at(kernel), c.at(y.buffer), bias < 0 ? nullptr : c.at(bias),
              c.at(workspace), c.stream);
    if (separate) {
      activate(activation, c.at(y.buffer), c.at(y.buffer), y.type, y.elements(), c.stream);
    }
  });
}

template <>
void lower(const graph::ConvBackwardData& op, Lowering& l) {
  const Operand dx = l.output(0);
  const Operand dy = l.input(0, dx.type);
  if (is_depthwise(op.groups, dx.c())) {
    const DepthwiseShape shape = depthwise_shape(l.samples(), dx.shape, dy.c(), op.window);
    const BufferId kernel = l.input(1).buffer;
    return l.emit("depthwise kernel", [=](const CallContext& c) {
      depthwise_backward_data(shape, c.at(dy.buffer), c.at<float>(kernel), c.at(dx.buffer), dx.type,
                              c.stream);
    });
  }
  const KernelShape kernel_shape(l.input_shape(1));
  const std::shared_ptr<ConvolutionPlan> plan = l.machine().convolutions->plan(
      make_problem(Pass::kBackwardData, l, dx.type, dx.shape, kernel_shape, op.window, op.groups));
  const BufferId kernel =
      l.packed_kernel(1, dx.type, kernel_shape.positions, kernel_shape.in, kernel_shape.out);
  const BufferId workspace = l.scratch(plan->workspace_bytes());
  l.emit(plan->describe(), [=](const CallContext& c) {
    plan->run(c.at(dx.buffer), c.at(kernel), c.at(dy.buffer), nullptr, c.at(workspace), c.stream);
  });
}

template <>
void lower(const graph::ConvBackwardWeights& op, Lowering& l) {
  const Operand x = l.input(0);
  const Operand dy = l.input(1, x.type);
  const Operand dkernel = l.output(0);
  const BufferId dbias = op.bias ? l.output(1).buffer : -1;
  const BufferId sum_scratch = op.bias ? l.scratch(sum_rows_scratch(dy.rows(), dy.c())) : -1;
  if (op.bias) l.add_traffic(dy.bytes());
  const auto bias_gradient = [=](const CallContext& c) {
    if (dbias < 0) return;
    sum_rows(c.at(dy.buffer), dy.type, dy.rows(), dy.c(), c.at<float>(dbias), c.at(sum_scratch),
             c.stream);
  };
  if (is_depthwise(op.groups, x.c())) {
    const DepthwiseShape shape = depthwise_shape(l.samples(), x.shape, dy.c(), op.window);
    const BufferId scratch = l.scratch(depthwise_scratch(shape));
    return l.emit("depthwise kernel", [=](const CallContext& c) {
      depthwise_backward_weights(shape, c.at(x.buffer), c.at(dy.buffer),
                                 c.at<float>(dkernel.buffer), x.type, c.at(scratch), c.stream);
      bias_gradient(c);
    });
  }
  const KernelShape kernel(op.kernel);
  const std::shared_ptr<ConvolutionPlan> plan = l.machine().convolutions->plan(
      make_problem(Pass::kBackwardWeights, l, x.type, x.shape, kernel, op.window, op.groups));
  const auto packed_bytes = kernel.elements() * static_cast<std::int64_t>(size_of(x.type));
  const BufferId packed = l.scratch(packed_bytes);
  const BufferId workspace = l.scratch(plan->workspace_bytes());
  const KernelGradient gradient{packed,           dkernel.buffer, x.type,
                                kernel.positions, kernel.in,      kernel.out};
  const bool later = l.unpack_later(0, gradient);
  l.add_traffic(later ? packed_bytes : 2 * packed_bytes);
  l.emit(plan->describe(), [=](const CallContext& c) {
    plan->run(c.at(x.buffer), c.at(packed), c.at(dy.buffer), nullptr, c.at(workspace), c.stream);
    if (!later) {
      const KernelLayouts layouts = gradient.layouts(c);
      unpack_kernels({&layouts, 1}, gradient.type, c.stream);
    }
    bias_gradient(c);
  });
}

}  // namespace trainer::backend::cuda
