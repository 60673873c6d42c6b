// Arrays of device numbers for the tests of the fakes, where work runs at once and device memory is
// ordinary memory.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "base/types.h"
#include "cuda/fake_cudnn/values.h"

namespace trainer::test {

inline fake::Number find_number(DType type) {
  return type == DType::kFloat32    ? fake::Number::kFloat32
         : type == DType::kBFloat16 ? fake::Number::kBFloat16
                                    : fake::Number::kFloat16;
}

// Numbers of a type at an address that is a multiple of 16 and of no more. They start as NaN.
class DeviceArray {
 public:
  DeviceArray(DType type, std::int64_t count)
      : type_(find_number(type)),
        count_(count),
        bytes_(static_cast<std::size_t>(count * fake::size_of(type_)) + 64, 0xff) {
    const auto address = reinterpret_cast<std::uintptr_t>(bytes_.data());
    data_ = bytes_.data() + ((address + 31) / 32 * 32 + 16 - address);
  }
  DeviceArray(DeviceArray&&) = default;
  DeviceArray& operator=(DeviceArray&&) = default;

  // Numbers in [-1, 1), rounded to the type.
  static DeviceArray random(DType type, std::int64_t count, unsigned seed) {
    DeviceArray result(type, count);
    std::mt19937 draw(seed);
    for (std::int64_t i = 0; i < count; ++i) {
      result.set(i, static_cast<double>(draw()) / 2147483648.0 - 1);
    }
    return result;
  }

  void* data() const { return data_; }
  std::int64_t count() const { return count_; }
  double operator[](std::int64_t i) const { return fake::load(data_, i, type_); }
  void set(std::int64_t i, double value) { fake::store(data_, i, type_, value); }

 private:
  fake::Number type_;
  std::int64_t count_;
  std::vector<std::uint8_t> bytes_;
  std::uint8_t* data_ = nullptr;
};

// An address that is a multiple of 256, with `bytes` bytes that are not initialised behind it, and
// bytes behind these that nobody may change.
class Workspace {
 public:
  explicit Workspace(std::int64_t bytes)
      : bytes_(bytes), all_(static_cast<std::size_t>(bytes) + 256 + kGuard, kPattern) {
    std::fill_n(data(), bytes, std::uint8_t{0xff});
  }
  std::uint8_t* data() {
    const auto address = reinterpret_cast<std::uintptr_t>(all_.data());
    return all_.data() + ((address + 255) / 256 * 256 - address);
  }
  bool is_kept_to() {
    return std::all_of(data() + bytes_, data() + bytes_ + kGuard,
                       [](std::uint8_t byte) { return byte == kPattern; });
  }

 private:
  static constexpr std::int64_t kGuard = 1024;
  static constexpr std::uint8_t kPattern = 0xa5;
  std::int64_t bytes_;
  std::vector<std::uint8_t> all_;
};

// The largest difference, in units of the type's precision at a magnitude of at least 1; infinite
// when a number is not finite.
inline double worst_error(const DeviceArray& actual, const std::vector<double>& expected,
                          DType type) {
  const double precision = type == DType::kFloat32    ? std::ldexp(1.0, -23)
                           : type == DType::kBFloat16 ? std::ldexp(1.0, -8)
                                                      : std::ldexp(1.0, -11);
  double worst = 0;
  for (std::int64_t i = 0; i < actual.count(); ++i) {
    const double want = expected[static_cast<std::size_t>(i)];
    const double error = std::abs(actual[i] - want) / (precision * std::max(1.0, std::abs(want)));
    if (!(error < 1e30)) return std::numeric_limits<double>::infinity();
    worst = std::max(worst, error);
  }
  return worst;
}

}  // namespace trainer::test
