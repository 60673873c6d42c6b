#include "base/types.h"

namespace trainer {

std::size_t size_of(DType type) {
  switch (type) {
    case DType::kFloat32:
    case DType::kInt32:
      return 4;
    case DType::kBFloat16:
    case DType::kFloat16:
      return 2;
    case DType::kUInt8:
      return 1;
  }
  return 0;
}

bool is_float(DType type) {
  return type == DType::kFloat32 || type == DType::kBFloat16 || type == DType::kFloat16;
}

std::int64_t Shape::elements() const {
  std::int64_t count = 1;
  for (std::size_t i = batched() ? 1 : 0; i < dims_.size(); ++i) count *= dims_[i];
  return count;
}

Shape Shape::with_batch(std::int64_t n) const {
  Shape shape = *this;
  if (shape.batched()) shape.dims_[0] = n;
  return shape;
}

std::string to_string(const Shape& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.rank(); ++i) {
    if (i > 0) text += ", ";
    text += shape[i] == kBatch ? "batch" : std::to_string(shape[i]);
  }
  return text + "]";
}

}  // namespace trainer
