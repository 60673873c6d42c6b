// The Winograd kernels by themselves: how the work is cut into strips may change no bit.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "backend/cpu/memory.h"
#include "backend/cpu/simd/kernels.h"
#include "backend/harness.h"

namespace trainer::test {
namespace {

using backend::cpu::simd::Gate;
using backend::cpu::simd::Kernels;
using backend::cpu::simd::WinogradShape;

std::vector<const Kernels*> all_kernels() {
  std::vector<const Kernels*> all;
  for (const char* name : {"x86-64-v3", "x86-64-v4"}) {
    if (const Kernels* kernels = backend::cpu::simd::kernels_named(name)) all.push_back(kernels);
  }
  return all;
}

std::vector<float> numbers(std::int64_t count, std::uint64_t seed) {
  const auto content = test::content({count}, {}, DType::kFloat32, seed);
  return {content.begin(), content.end()};
}

std::int64_t padded(std::int64_t channels, const Kernels& kernels) {
  return (channels + kernels.block - 1) / kernels.block * kernels.block;
}

// Only whole blocks of channels, so that no padding has to be zero.
WinogradShape shape_of(std::int64_t n, std::int64_t tiles, bool streamed, bool transposed) {
  return {n, 13, 18, 13, 18, 1, 1, 32, 48, transposed, Gate::kRelu, 0, tiles, streamed, 0, 48};
}

std::vector<float> forward(const Kernels& k, const WinogradShape& s, const std::vector<float>& x,
                           const std::vector<float>& kernel, const std::vector<float>& bias) {
  const std::int64_t count = s.n * s.oh * s.ow * padded(s.out, k);
  const backend::cpu::Memory memory(count * 4);
  float* y = memory.as<float>();
  std::vector<float> scratch(static_cast<std::size_t>(k.winograd_scratch(s)));
  k.winograd(s, x.data(), kernel.data(), bias.data(), y, scratch.data());
  return {y, y + count};
}

std::vector<double> gradients(const Kernels& k, const WinogradShape& s, const std::vector<float>& x,
                              const std::vector<float>& dy) {
  std::vector<float> dkernel(static_cast<std::size_t>(9 * s.in * s.out));
  std::vector<float> dbias(static_cast<std::size_t>(s.out));
  std::vector<float> scratch(static_cast<std::size_t>(k.winograd_weights_scratch(s)));
  k.winograd_weights(s, x.data(), dy.data(), dkernel.data(), dbias.data(), scratch.data());
  dkernel.insert(dkernel.end(), dbias.begin(), dbias.end());
  return {dkernel.begin(), dkernel.end()};
}

}  // namespace

TEST_CASE("Winograd: no bit depends on the strips, nor on the other samples") {
  const auto kernel = numbers(9 * 32 * 48, 2), bias = numbers(48, 3);
  for (const Kernels* k : all_kernels()) {
    INFO(std::string(k->name));
    const auto x = numbers(3 * 13 * 18 * 32, 1);
    for (const bool transposed : {false, true}) {
      const auto whole = forward(*k, shape_of(3, 1000, false, transposed), x, kernel, bias);
      for (const std::int64_t tiles : {1, 7, 16, 59}) {
        for (const bool streamed : {false, true}) {
          CHECK(forward(*k, shape_of(3, tiles, streamed, transposed), x, kernel, bias) == whole);
        }
      }
      const auto one = forward(*k, shape_of(1, 9, true, transposed), x, kernel, bias);
      CHECK(std::equal(one.begin(), one.end(), whole.begin()));
    }
  }
}

TEST_CASE("Winograd: gradients of kernel and bias add up over strips") {
  for (const Kernels* k : all_kernels()) {
    const auto x = numbers(3 * 13 * 18 * 32, 1), dy = numbers(3 * 13 * 18 * 48, 4);
    const auto whole = gradients(*k, shape_of(3, 1000, false, false), x, dy);
    for (const std::int64_t tiles : {1, 16, 59}) {
      const auto cut = gradients(*k, shape_of(3, tiles, false, false), x, dy);
      CHECK(distance({cut.begin(), cut.end()}, whole) < 2e-6);
    }
  }
}

}  // namespace trainer::test
