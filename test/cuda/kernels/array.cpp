#include "cuda/kernels/array.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>

#include "base/numbers/half.h"
#include "base/numbers/random.h"
#include "simt/simt.h"

namespace simt {

// Kernel tests have no streams: a kernel runs when it is launched.
void launch(cudaStream_t, const char* kernel, dim3 grid, dim3 block, std::size_t shared_bytes,
            std::function<void()> thread) {
  run_grid(kernel, grid, block, shared_bytes, thread);
}

}  // namespace simt

namespace trainer::test {

Array::Array(DType type, Shape shape, std::int64_t shift) : type_(type), shape_(std::move(shape)) {
  const std::size_t size = size_of(type), before = static_cast<std::size_t>(shift) * size;
  const std::size_t bytes = before + static_cast<std::size_t>(this->size()) * size;
  memory_.reset(new char[bytes]);  // aligned to 16 bytes, as malloc() aligns
  std::memset(memory_.get(), 0xff, bytes);
  data_ = memory_.get() + before;
}

Array::Array(DType type, const Tensor& values, std::int64_t shift)
    : Array(type, values.shape, shift) {
  for (std::int64_t i = 0; i < size(); ++i) set(i, values[i]);
}

Array Array::random(DType type, const Shape& shape, std::uint64_t seed, double low, double high,
                    std::int64_t shift) {
  Array array(type, shape, shift);
  Random random(seed, Stream::kSynthetic);
  for (std::int64_t i = 0; i < array.size(); ++i) {
    const double value = low + (high - low) * static_cast<double>(random.uniform());
    array.set(i, is_float(type) ? value : std::floor(value));
  }
  return array;
}

double Array::operator[](std::int64_t i) const {
  const auto read = [&]<class T>(T value) {
    std::memcpy(&value, data_ + static_cast<std::size_t>(i) * sizeof value, sizeof value);
    return value;
  };
  switch (type_) {
    case DType::kFloat32:
      return static_cast<double>(read(float{}));
    case DType::kBFloat16:
      return static_cast<double>(bfloat16_to_float(read(std::uint16_t{})));
    case DType::kFloat16:
      return static_cast<double>(float16_to_float(read(std::uint16_t{})));
    case DType::kUInt8:
      return read(std::uint8_t{});
    case DType::kInt32:
      return read(std::int32_t{});
  }
  return 0;
}

void Array::set(std::int64_t i, double value) {
  const auto write = [&]<class T>(T rounded) {
    std::memcpy(data_ + static_cast<std::size_t>(i) * sizeof rounded, &rounded, sizeof rounded);
  };
  const auto narrow = static_cast<float>(value);
  switch (type_) {
    case DType::kFloat32:
      return write(narrow);
    case DType::kBFloat16:
      return write(float_to_bfloat16(narrow));
    case DType::kFloat16:
      return write(float_to_float16(narrow));
    case DType::kUInt8:
      return write(static_cast<std::uint8_t>(value));
    case DType::kInt32:
      return write(static_cast<std::int32_t>(value));
  }
}

Tensor Array::tensor() const {
  Tensor tensor{shape_, {}};
  for (std::int64_t i = 0; i < size(); ++i) tensor.data.push_back((*this)[i]);
  return tensor;
}

std::string Array::bytes() const {
  return std::string(data_, static_cast<std::size_t>(size()) * size_of(type_));
}

std::vector<Tensor> evaluate_op(const graph::Op& op, std::vector<Tensor> inputs,
                                const std::vector<Shape>& outputs,
                                const backend::Scalars& scalars) {
  std::vector<Tensor> results;
  for (const Shape& shape : outputs) {
    results.push_back({shape, std::vector<double>(static_cast<std::size_t>(shape.elements()))});
  }
  Site site{{}, {}, scalars, 0};
  for (Tensor& input : inputs) site.inputs.push_back(&input);
  for (Tensor& result : results) site.outputs.push_back(&result);
  run_op(op, site);
  return results;
}

namespace {

double find_rounding(DType type) {
  if (type == DType::kBFloat16) return 1.0 / 256;
  if (type == DType::kFloat16) return 1.0 / 2048;
  return 1e-6;
}

void compare(const Array& got, const Tensor& want, double rounding, double tolerance) {
  REQUIRE(got.size() == want.size());
  std::int64_t wrong = 0, first = 0;
  for (std::int64_t i = got.size(); i-- > 0;) {
    const double bound = rounding * std::abs(want[i]) + tolerance;
    const bool same = got[i] == want[i] || (std::isnan(got[i]) && std::isnan(want[i]));
    if (same || std::abs(got[i] - want[i]) <= bound) continue;
    ++wrong;
    first = i;
  }
  CHECK_MESSAGE(wrong == 0, to_string(got.type()), ": ", wrong, " of ", got.size(),
                " elements are wrong, first element ", first, ": ",
                got.size() > 0 ? got[first] : 0.0, " instead of ",
                got.size() > 0 ? want[first] : 0.0);
}

}  // namespace

void check_close(const Array& got, const Tensor& want, double tolerance) {
  compare(got, want, find_rounding(got.type()), tolerance);
}

void check_equal(const Array& got, const Tensor& want) { compare(got, want, 0, 0); }

void set_thread_order(std::uint64_t seed) { simt::set_seed(seed); }

void check_same_bytes(const std::vector<Array>& a, const std::vector<Array>& b) {
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) CHECK((a[i].bytes() == b[i].bytes()));
}

}  // namespace trainer::test
