#include "backend/cuda/kernels/response_norm.h"

#include "backend/cuda/kernels/multiply.h"
#include "backend/cuda/lowering.h"

namespace trainer::backend::cuda {

template <>
void lower(const graph::ResponseNorm& op, Lowering& l) {
  const Operand factors = l.output(0), norms = l.output(1);
  const Operand x = l.input(0, factors.type);
  const BufferId gamma = l.input(1).buffer;
  const RepeatedShape shape{x.n(), x.rows() / x.n(), x.c()};
  const BufferId sums = l.scratch(shape.outer * shape.width * sizeof(float));
  l.emit("kernel", [=](const CallContext& c) {
    sum_products_float32(c.at(x.buffer), c.at(x.buffer), c.at<float>(sums), x.type, shape,
                         c.stream);
    response_norm(op, c.at<float>(sums), c.at<float>(gamma), c.at(factors.buffer),
                  c.at(norms.buffer), x.type, shape.outer, shape.width, c.stream);
  });
}

template <>
void lower(const graph::ResponseNormBackward& op, Lowering& l) {
  const Operand slopes = l.output(0), products = l.output(1);
  const Operand norms = l.input(0, slopes.type), dy = l.input(2, slopes.type);
  const BufferId gamma = l.input(1).buffer;
  l.emit("kernel", [=, samples = norms.n(), channels = norms.c()](const CallContext& c) {
    response_norm_backward(op, c.at(norms.buffer), c.at<float>(gamma), c.at(dy.buffer),
                           c.at(slopes.buffer), c.at(products.buffer), slopes.type, samples,
                           channels, c.stream);
  });
}

}  // namespace trainer::backend::cuda
