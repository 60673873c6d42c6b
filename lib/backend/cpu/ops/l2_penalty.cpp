#include "backend/cpu/lowering.h"

namespace trainer::backend::cpu {

template <>
void lower(const graph::L2Penalty& op, Lowering& l) {
  const BufferId w = l.input(0, Layout::kPlain).buffer;
  const BufferId y = l.output(0, Layout::kPlain).buffer;
  const std::int64_t count = l.input_shape(0).elements();
  const double squares = static_cast<double>(op.factor), absolutes = static_cast<double>(op.l1);
  l.emit(l.kernels().name, [=, &kernels = l.kernels()](const CallContext& c) {
    const float* from = c.at<float>(w);
    double sum = 0;
    if (c.first && squares != 0) sum += squares * kernels.sum_of_squares(from, count);
    if (c.first && absolutes != 0) sum += absolutes * kernels.sum_of_absolutes(from, count);
    *c.at<float>(y) = static_cast<float>(sum);
  });
}

}  // namespace trainer::backend::cpu
