#include "backend/cuda/kernels/add.h"

#include "backend/cuda/kernels/multiply.h"
#include "backend/cuda/lowering.h"

namespace trainer::backend::cuda {

template <>
void lower(const graph::Add&, Lowering& l) {
  const Operand y = l.output(0);
  std::vector<BufferId> inputs;
  for (std::size_t i = 0; i < l.input_count(); ++i) {
    inputs.push_back(l.input(i, y.type).buffer);
  }
  for (const BufferId input : inputs) l.use(input);
  l.use(y.buffer);
  l.emit("kernel", [=](const CallContext& c) {
    std::vector<const void*> from;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      from.push_back(c.at(inputs[i]));
      if (from.size() < kMaxSummands && i + 1 < inputs.size()) continue;
      add(from, c.at(y.buffer), y.type, y.elements(), c.stream);
      from.assign(1, c.at(y.buffer));
    }
  });
}

template <>
void lower(const graph::AddBias&, Lowering& l) {
  const Operand y = l.output(0);
  const Operand x = l.input(0, y.type), bias = l.input(1);
  const std::int64_t width = bias.elements();
  const RepeatedShape shape{1, x.elements() / width, width};
  l.emit("kernel", [=](const CallContext& c) {
    add_repeated(c.at(x.buffer), c.at<float>(bias.buffer), c.at(y.buffer), y.type, shape, c.stream);
  });
}

}  // namespace trainer::backend::cuda
