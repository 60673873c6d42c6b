#include <algorithm>

#include "backend/cpu/ops/kernel_helpers.h"

namespace trainer::backend::cpu {
namespace {

// Returns the number of classes before `label` in the order of falling logits; of equal logits the
// lower class comes first.
template <class T>
std::int32_t rank_of(const T* logits, std::int64_t classes, std::int64_t label) {
  const float label_logit = as_float(logits[label]);
  std::int32_t rank = 0;
  for (std::int64_t i = 0; i < label; ++i) rank += as_float(logits[i]) >= label_logit ? 1 : 0;
  for (std::int64_t i = label + 1; i < classes; ++i)
    rank += as_float(logits[i]) > label_logit ? 1 : 0;
  return rank;
}

}  // namespace

template <>
void lower(const graph::ClassRank& op, Lowering& l) {
  const Operand x = l.input(0, Layout::kPlain);
  const Operand labels = l.input(1, Layout::kPlain);
  const BufferId rank = l.output(0, Layout::kPlain).buffer;
  const std::int64_t n = x.shape.elements() / x.n();
  const std::int64_t stride = op.sample_weight ? n + 1 : n;  // of float labels
  const bool index = labels.type == DType::kInt32;
  with_type(x.type, [&]<class T>() {
    l.emit("rows", [=, threshold = op.threshold](const CallContext& c) {
      const T* logits = c.at<T>(x.buffer);
      std::int32_t* ranks = c.at<std::int32_t>(rank);
      for (std::int64_t s = 0; s < c.samples; ++s) {
        const float* row = index ? nullptr : c.at<float>(labels.buffer) + s * stride;
        if (n == 1) {
          const bool label = index ? c.at<std::int32_t>(labels.buffer)[s] > 0 : row[0] > 0.5f;
          ranks[s] = (as_float(logits[s]) > threshold) == label ? 0 : 1;
          continue;
        }
        const std::int64_t label =
            index ? c.at<std::int32_t>(labels.buffer)[s] : std::max_element(row, row + n) - row;
        ranks[s] = rank_of(logits + s * n, n, label);
      }
    });
  });
}

}  // namespace trainer::backend::cpu
