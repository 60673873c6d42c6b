#include "backend/cuda/kernels/class_rank.h"
#include "backend/cuda/kernels/targets.cuh"

namespace trainer::backend::cuda {
namespace {

template <class T>
__global__ void __launch_bounds__(kThreads)
    class_rank_kernel(const T* logits, Targets targets, float threshold, std::int32_t* ranks,
                      std::int64_t n) {
  double* shared = shared_memory<double>();
  const std::int64_t row = blockIdx.x;
  const RowTargets target = targets.row(row);
  logits += row * n;
  if (n == 1) {
    const bool label = target.numbers != nullptr ? target.numbers[0] > 0.5f : target.index > 0;
    if (threadIdx.x == 0) ranks[row] = (to_float(logits[0]) > threshold) == label ? 0 : 1;
    return;
  }
  const std::int64_t label =
      target.numbers != nullptr ? largest_of_row(target.numbers, n, shared) : target.index;
  const float label_logit = to_float(logits[label]);
  std::int32_t before = 0;
  for_row(n, [&](std::int64_t i) {
    const float v = to_float(logits[i]);
    if (i < label ? v >= label_logit : i > label && v > label_logit) ++before;
  });
  before = over_block(before, 0, reinterpret_cast<std::int32_t*>(shared), Sum());
  if (threadIdx.x == 0) ranks[row] = before;
}

}  // namespace

void class_rank(const graph::ClassRank& op, const void* logits, DType type, const void* labels,
                DType label_type, std::int32_t* ranks, std::int64_t rows, std::int64_t n,
                cudaStream_t stream) {
  with_type(type, [&]<class T>() {
    launch("class_rank", class_rank_kernel<T>, static_cast<unsigned>(rows), row_threads(n),
           kRowShared, stream, static_cast<const T*>(logits),
           make_targets(labels, label_type, n, op.sample_weight), op.threshold, ranks, n);
  });
}

}  // namespace trainer::backend::cuda
