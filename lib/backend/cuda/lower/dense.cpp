#include "backend/cuda/kernels/activation.h"
#include "backend/cuda/kernels/layout.h"
#include "backend/cuda/lowering.h"

namespace trainer::backend::cuda {

template <>
void lower(const graph::Dense& op, Lowering& l) {
  const Operand x = l.input(0);
  const Operand y = l.output(0);
  const bool relu = op.activation.kind == graph::Activation::Kind::kRelu;
  MatmulProblem problem;
  problem.type = x.type;
  problem.result = y.type;
  problem.tf32 = l.tf32();
  problem.m = x.rows();
  problem.n = y.c();
  problem.k = x.c();
  problem.bias = op.bias;
  problem.relu = relu;
  const std::shared_ptr<Matmul> plan = l.machine().matmuls->plan(problem);
  const BufferId kernel = l.packed_vector(1, x.type);
  const BufferId bias = op.bias ? l.input(2).buffer : -1;
  const BufferId workspace = l.scratch(plan->workspace_bytes());
  const bool separate = !relu && !op.activation.linear();
  if (separate) l.add_traffic(2 * y.bytes());
  l.emit(plan->describe(), [=, activation = op.activation](const CallContext& c) {
    plan->run(c.at(x.buffer), c.at(kernel), bias < 0 ? nullptr : c.at(bias), c.at(y.buffer),
              c.at(workspace), c.stream);
    if (separate) {
      activate(activation, c.at(y.buffer), c.at(y.buffer), y.type, y.elements(), c.stream);
    }
  });
}

template <>
void lower(const graph::DenseBackwardData& op, Lowering& l) {
  const Operand dx = l.output(0);
  const Operand dy = l.input(0, dx.type);
  MatmulProblem problem;
  problem.type = problem.result = dx.type;
  problem.tf32 = l.tf32();
  problem.m = dy.rows();
  problem.n = op.inputs;
  problem.k = dy.c();
  problem.transpose_b = true;
  const std::shared_ptr<Matmul> plan = l.machine().matmuls->plan(problem);
  const BufferId kernel = l.packed_vector(1, dx.type);
  const BufferId workspace = l.scratch(plan->workspace_bytes());
  l.emit(plan->describe(), [=](const CallContext& c) {
    plan->run(c.at(dy.buffer), c.at(kernel), nullptr, c.at(dx.buffer), c.at(workspace), c.stream);
  });
}

template <>
void lower(const graph::DenseBackwardWeights& op, Lowering& l) {
  const Operand x = l.input(0);
  const Operand dy = l.input(1, x.type);
  const Operand dkernel = l.output(0);
  const BufferId dbias = op.bias ? l.output(1).buffer : -1;
  MatmulProblem problem;
  problem.type = x.type;
  problem.tf32 = l.tf32();
  problem.m = x.c();
  problem.n = dy.c();
  problem.k = x.rows();
  problem.transpose_a = true;
  const std::shared_ptr<Matmul> plan = l.machine().matmuls->plan(problem);
  const BufferId workspace = l.scratch(plan->workspace_bytes());
  const BufferId sum_scratch = op.bias ? l.scratch(sum_rows_scratch(dy.rows(), dy.c())) : -1;
  if (op.bias) l.add_traffic(dy.bytes());
  l.emit(plan->describe(), [=](const CallContext& c) {
    plan->run(c.at(x.buffer), c.at(dy.buffer), nullptr, c.at(dkernel.buffer), c.at(workspace),
              c.stream);
    if (dbias < 0) return;
    sum_rows(c.at(dy.buffer), dy.type, dy.rows(), dy.c(), c.at<float>(dbias), c.at(sum_scratch),
             c.stream);
  });
}

}  // namespace trainer::backend::cuda
