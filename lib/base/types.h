// Element types and shapes. A shape is logical: images are NHWC, convolution kernels HWIO.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "base/spelling.h"

namespace trainer {

enum class DType { kFloat32, kBFloat16, kFloat16, kUInt8, kInt32 };

std::size_t size_of(DType type);  // bytes of one element
bool is_float(DType type);
constexpr auto spellings(DType) {
  using enum DType;
  return std::to_array<Spelling<DType>>({{kFloat32, "float32"},
                                         {kBFloat16, "bfloat16"},
                                         {kFloat16, "float16"},
                                         {kUInt8, "uint8"},
                                         {kInt32, "int32"}});
}
constexpr std::string_view to_string(DType type) { return spell(type); }

// The dimension that stands for the number of samples of a call.
inline constexpr std::int64_t kBatch = -1;

// Dimensions, outermost first. A batched value has kBatch as its first dimension.
class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<std::int64_t> dims) : dims_(dims) {}
  explicit Shape(std::vector<std::int64_t> dims) : dims_(std::move(dims)) {}

  std::size_t rank() const { return dims_.size(); }
  std::int64_t operator[](std::size_t i) const { return dims_[i]; }
  std::int64_t& operator[](std::size_t i) { return dims_[i]; }
  const std::vector<std::int64_t>& dims() const { return dims_; }

  bool batched() const { return !dims_.empty() && dims_[0] == kBatch; }
  // Elements of one sample for a batched shape, of the whole value otherwise. 1 for a scalar.
  std::int64_t elements() const;
  // Returns this shape with the batch dimension set to n.
  Shape with_batch(std::int64_t n) const;

  bool operator==(const Shape& other) const = default;

 private:
  std::vector<std::int64_t> dims_;
};

std::string to_string(const Shape& shape);  // "[batch, 28, 28, 1]"

}  // namespace trainer
