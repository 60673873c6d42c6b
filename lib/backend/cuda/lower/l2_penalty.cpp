#include "backend/cuda/kernels/l2_penalty.h"

#include "backend/cuda/lowering.h"

namespace trainer::backend::cuda {
namespace {

// The bytes of penalty()'s partial sums.
constexpr std::int64_t kPenaltyScratch = 1024 * sizeof(double);

}  // namespace

template <>
void lower(const graph::L2Penalty& op, Lowering& l) {
  const BufferId w = l.input(0).buffer, y = l.output(0).buffer;
  const std::int64_t count = l.input_shape(0).elements();
  const BufferId scratch = l.scratch(kPenaltyScratch);
  l.emit("kernel", [=](const CallContext& c) {
    penalty(op, c.at<float>(w), count, c.at<float>(y), c.at<double>(scratch), c.stream);
  });
}

}  // namespace trainer::backend::cuda
