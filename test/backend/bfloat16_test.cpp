// The rounding to bfloat16 of the CPU backend's own kernels, by the function that rounds single
// numbers and the one that rounds vectors.
#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <vector>

#include "backend/cpu/simd/ops/add.inl"
#include "base/numbers/half.h"

namespace trainer::backend::cpu {
namespace {

// A float for each case of rounding, by its bits.
constexpr std::uint32_t kBits[] = {0x7FFFFFFF, 0xFFFFFFFF,  // NaN whose payload is all ones
                                   0x7FFF8000, 0x7FC00000, 0x7FC0FFFF,  // other NaN
                                   0x7F800000, 0xFF800000,              // infinity
                                   0x7F7FFFFF, 0xFF7FFFFF,              // rounds to infinity
                                   0x7F7F7FFF,              // rounds to the largest number
                                   0x3F808000, 0x3F818000,  // ties
                                   0x3F808001, 0x3F807FFF, 0x00018000, 0x80000000};
constexpr std::size_t kCount = std::size(kBits);

std::uint16_t expected_bits(std::size_t i) {
  return float_to_bfloat16(std::bit_cast<float>(kBits[i % kCount]));
}

template <class Check>
void for_each_instruction_set(const Check& check) {
  int tested = 0;
  for (const char* name : {"x86-64-v3", "x86-64-v4"}) {
    const simd::Kernels* kernels = simd::kernels_named(name);
    if (kernels == nullptr) continue;
    ++tested;
    CAPTURE(name);
    check(*kernels);
  }
  CHECK(tested > 0);
}

}  // namespace

TEST_CASE("kernels in bfloat16: single numbers round like float_to_bfloat16(), NaN included") {
  for_each_instruction_set([](const simd::Kernels& kernels) {
    constexpr std::size_t kWidth = 2 * kCount + 3;  // whole vectors and single numbers
    const std::vector<simd::BFloat16> x(kWidth, simd::BFloat16{0x8000});  // x + (-0) is x
    std::vector<simd::BFloat16> y(kWidth);
    std::vector<float> bias;
    for (std::size_t i = 0; i < kWidth; ++i) {
      bias.push_back(std::bit_cast<float>(kBits[i % kCount]));
    }
    simd::find_kernels<simd::AddKernels<simd::BFloat16>>(kernels).add_bias(x.data(), bias.data(),
                                                                           y.data(), 1, kWidth);
    for (std::size_t i = 0; i < kWidth; ++i) {
      CAPTURE(i);
      CHECK(y[i].bits == expected_bits(i));
    }
  });
}

TEST_CASE("kernels in bfloat16: vectors round like float_to_bfloat16(), NaN included") {
  for_each_instruction_set([](const simd::Kernels& kernels) {
    // y = (x - mean) * a + b with x, mean and a of zero.
    const std::vector<float> zeros(kCount);
    std::vector<float> b;
    for (const std::uint32_t bits : kBits) b.push_back(std::bit_cast<float>(bits));
    const std::vector<simd::BFloat16> x(kCount);
    std::vector<simd::BFloat16> y(kCount);
    const auto blocks = static_cast<std::int64_t>(kCount) / kernels.block;
    simd::find_kernels<simd::Typed<simd::BFloat16>>(kernels).scale_shift(
        {1, blocks, 1}, x.data(),
        {zeros.data(), zeros.data(), b.data(), simd::FusedActivation::kNone, 0}, y.data());
    for (std::size_t i = 0; i < kCount; ++i) {
      CAPTURE(i);
      const bool zero = kBits[i] == 0x80000000;  // 0 + (-0) is 0
      CHECK(y[i].bits == (zero ? 0 : expected_bits(i)));
    }
  });
}

}  // namespace trainer::backend::cpu
