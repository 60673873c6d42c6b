#include "backend/cuda/kernels/preprocess.h"

#include "backend/cuda/lowering.h"

namespace trainer::backend::cuda {

template <>
void lower(const graph::Preprocess& op, Lowering& l) {
  const Operand x = l.input(0);
  const Operand y = l.output(0);
  std::vector<float> a, b;
  for (std::size_t i = 0; i < op.mean.size(); ++i) {
    a.push_back(op.scale / op.std[i]);
    b.push_back(-op.mean[i] / op.std[i]);
  }
  const BufferId scale = l.constant(a), shift = l.constant(b);
  l.emit("kernel", [=, reverse = op.reverse_channels](const CallContext& c) {
    preprocess(c.at(x.buffer), x.type, c.at(y.buffer), y.type, c.at<float>(scale),
               c.at<float>(shift), x.rows(), x.c(), reverse, c.stream);
  });
}

}  // namespace trainer::backend::cuda
