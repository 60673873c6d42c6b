#include "backend/cuda/kernels/attention.h"

#include "backend/cuda/lowering.h"

namespace trainer::backend::cuda {
namespace {

AttentionShape attention_shape(const Operand& y, std::int64_t heads) {
  return {y.n(), y.shape[1], heads, y.c() / heads};
}

}  // namespace

template <>
void lower(const graph::Attention& op, Lowering& l) {
  const Operand y = l.output(0);
  const Operand qkv = l.input(0, y.type);
  const BufferId log_sums = op.log_sums ? l.output(1).buffer : -1;
  l.emit("kernel", [=, shape = attention_shape(y, op.heads)](const CallContext& c) {
    attention(shape, c.at(qkv.buffer), c.at(y.buffer),
              log_sums < 0 ? nullptr : c.at<float>(log_sums), y.type, c.stream);
  });
}

template <>
void lower(const graph::AttentionBackward& op, Lowering& l) {
  const Operand dqkv = l.output(0);
  const Operand qkv = l.input(0, dqkv.type), y = l.input(1, dqkv.type);
  const BufferId log_sums = l.input(2).buffer;
  const Operand dy = l.input(3, dqkv.type);
  l.emit("kernel", [=, shape = attention_shape(y, op.heads)](const CallContext& c) {
    attention_backward(shape, c.at(qkv.buffer), c.at(y.buffer), c.at<float>(log_sums),
                       c.at(dy.buffer), c.at(dqkv.buffer), dqkv.type, c.stream);
  });
}

}  // namespace trainer::backend::cuda
