// What the tests of kernels share: arrays in "device" memory, references in double, comparisons.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/types.h"
#include "support/reference.h"

namespace trainer::test {

inline constexpr DType kFloatTypes[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat16};
inline constexpr DType kF32 = DType::kFloat32;

// Elements of a type in memory of exactly their size, so that AddressSanitizer sees what lies
// outside. Starts as NaN. Aligned to 16 bytes, or `shift` elements behind such an address.
class Array {
 public:
  Array(DType type, Shape shape, std::int64_t shift = 0);
  // The values, rounded to the type.
  Array(DType type, const Tensor& values, std::int64_t shift = 0);
  // Uniform in [low, high), rounded to the type; whole numbers for integer types.
  static Array random(DType type, const Shape& shape, std::uint64_t seed, double low = -2,
                      double high = 2, std::int64_t shift = 0);

  void* data() { return data_; }
  template <class T>
  T* as() {
    return reinterpret_cast<T*>(data_);
  }
  DType type() const { return type_; }
  std::int64_t size() const { return shape_.elements(); }
  double operator[](std::int64_t i) const;
  void set(std::int64_t i, double value);
  Tensor tensor() const;
  // The bits, for comparisons without a tolerance.
  std::string bytes() const;

 private:
  DType type_;
  Shape shape_;
  std::unique_ptr<char[]> memory_;
  char* data_;
};

// A value of a plain struct in "device" memory.
template <class T>
class Device {
 public:
  explicit Device(const T& value) : value_(std::make_unique<T>(value)) {}
  T* get() { return value_.get(); }
  T* operator->() { return value_.get(); }

 private:
  std::unique_ptr<T> value_;
};

// The outputs of an op by the reference.
std::vector<Tensor> evaluate_op(const graph::Op& op, std::vector<Tensor> inputs,
                                const std::vector<Shape>& outputs,
                                const backend::Scalars& scalars = {});

// Checks |got - want| <= the type's rounding * |want| + tolerance for all elements.
void check_close(const Array& got, const Tensor& want, double tolerance = 1e-6);
void check_equal(const Array& got, const Tensor& want);

// Runs `run`, which fills and returns arrays, in several orders of threads and blocks: the bits
// must be the same.
template <class F>
std::vector<Array> check_repeats(const F& run);

void set_thread_order(std::uint64_t seed);
void check_same_bytes(const std::vector<Array>& a, const std::vector<Array>& b);

template <class F>
std::vector<Array> check_repeats(const F& run) {
  set_thread_order(1);
  std::vector<Array> first = run();
  for (const std::uint64_t seed : {2, 3}) {
    set_thread_order(seed);
    check_same_bytes(first, run());
  }
  return first;
}

}  // namespace trainer::test
