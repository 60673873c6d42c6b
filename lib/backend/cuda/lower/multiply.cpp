#include "backend/cuda/kernels/multiply.h"

#include "backend/cuda/kernels/elementwise.h"
#include "backend/cuda/lowering.h"

namespace trainer::backend::cuda {
namespace {

// A factor or bias without a batch has fewer dimensions than what it is repeated over.
bool of_samples(const Shape& x, const Shape& part) { return x.rank() == part.rank(); }

// How `part` is repeated over x: for a sample's pixels, or for all that its dimensions leave out.
RepeatedShape repeated(const Shape& x, const Shape& part) {
  if (of_samples(x, part)) return {x[0], x[1] * x[2], x[3]};
  return {1, x.elements() / part.elements(), part.elements()};
}

}  // namespace

template <>
void lower(const graph::Multiply&, Lowering& l) {
  const Operand y = l.output(0);
  const Operand x = l.input(0, y.type);
  const Operand factor = of_samples(x.shape, l.input_shape(1)) ? l.input(1, y.type) : l.input(1);
  if (factor.shape == x.shape) {
    return l.emit("kernel", [=](const CallContext& c) {
      multiply(c.at(x.buffer), c.at(factor.buffer), c.at(y.buffer), y.type, y.elements(), c.stream);
    });
  }
  const RepeatedShape shape = repeated(x.shape, factor.shape);
  l.emit("kernel", [=](const CallContext& c) {
    multiply_repeated(c.at(x.buffer), c.at(factor.buffer), factor.type, c.at(y.buffer), y.type,
                      shape, c.stream);
  });
}

template <>
void lower(const graph::SumProduct& op, Lowering& l) {
  const Operand sum = l.output(0);
  const bool batched = op.shape.batched(), two = l.input_count() == 2;
  const Operand a = batched ? l.input(0, sum.type) : l.input(0);
  const BufferId b = two ? l.input(1, a.type).buffer : -1;
  const auto second = [b](const CallContext& c) { return b < 0 ? nullptr : c.at(b); };
  if (sum.shape == a.shape) {
    return l.emit("kernel", [=](const CallContext& c) {
      if (two) {
        multiply(c.at(a.buffer), c.at(b), c.at(sum.buffer), a.type, a.elements(), c.stream);
      } else {
        convert(c.at(a.buffer), a.type, c.at(sum.buffer), a.type, a.elements(), c.stream);
      }
    });
  }
  const RepeatedShape shape = repeated(a.shape, sum.shape);
  if (batched) {
    return l.emit("kernel", [=](const CallContext& c) {
      sum_products(c.at(a.buffer), second(c), c.at(sum.buffer), a.type, shape, c.stream);
    });
  }
  const BufferId scratch = l.scratch(sum_products_scratch(shape.rows, shape.width));
  l.emit("kernel", [=](const CallContext& c) {
    sum_products_of_all(c.at(a.buffer), second(c), c.at<float>(sum.buffer), a.type, shape.rows,
                        shape.width, c.at(scratch), c.stream);
  });
}

}  // namespace trainer::backend::cuda
