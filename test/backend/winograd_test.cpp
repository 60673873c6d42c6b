// The Winograd kernels by themselves: neither strips, parts nor the way of storing may change a
// bit.
#include <doctest/doctest.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include "backend/cpu/memory.h"
#include "backend/cpu/simd/kernels.h"
#include "backend/harness.h"
#include "backend/model_runs.h"
#include "base/numbers/half.h"
#include "compile/compile.h"
#include "support/contains.h"

namespace trainer::test::winograd_test {
namespace {

using backend::cpu::simd::BFloat16;
using backend::cpu::simd::FusedActivation;
using backend::cpu::simd::Kernels;
using backend::cpu::simd::Winograd;
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
constexpr std::int64_t kIn = 32, kOut = 48;
WinogradShape shape_of(std::int64_t n, std::int64_t tiles, bool transposed) {
  return {n, 13,    18,    13, 18,  1, 1, kIn, kOut, transposed, FusedActivation::kRelu,
          0, tiles, false, 0,  kOut};
}

struct Operands {
  std::vector<float> x = numbers(3 * 13 * 18 * kIn, 1);
  std::vector<float> kernel = numbers(9 * kIn * kOut, 2), bias = numbers(kOut, 3);
};

// Writes y with as much scratch as the kernel asks for.
void run(const Kernels& k, const WinogradShape& s, const Operands& in, float* y) {
  std::vector<float> scratch(static_cast<std::size_t>(k.winograd_scratch(s)));
  find_kernels<Winograd<float>>(k).forward(s, in.x.data(), in.kernel.data(), in.bias.data(), y,
                                           scratch.data());
}

std::vector<float> forward(const Kernels& k, const WinogradShape& s, const Operands& in) {
  const std::int64_t count = s.n * s.oh * s.ow * padded(s.out, k);
  const backend::cpu::Memory y(count * 4);
  run(k, s, in, y.as<float>());
  return {y.as<float>(), y.as<float>() + count};
}

// dkernel and dbias, one behind the other, with as much scratch as the kernel asks for.
template <class T>
void run_weights(const Kernels& k, const WinogradShape& s, const std::vector<T>& x,
                 const std::vector<T>& dy, std::vector<float>& gradients) {
  std::vector<float> scratch(static_cast<std::size_t>(k.winograd_weights_scratch(s)));
  find_kernels<Winograd<T>>(k).weights(s, x.data(), dy.data(), gradients.data(),
                                       gradients.data() + 9 * s.in * s.out, scratch.data());
}

template <class T>
std::vector<float> compute_gradients(const Kernels& k, const WinogradShape& s,
                                     const std::vector<T>& x, const std::vector<T>& dy) {
  std::vector<float> gradients(static_cast<std::size_t>((9 * s.in + 1) * s.out));
  run_weights(k, s, x, dy, gradients);
  return gradients;
}

std::vector<BFloat16> to_bfloat16(const std::vector<float>& values) {
  std::vector<BFloat16> rounded;
  for (const float value : values) rounded.push_back({float_to_bfloat16(value)});
  return rounded;
}

std::vector<float> to_float(const std::vector<BFloat16>& values) {
  std::vector<float> wide;
  for (const BFloat16 value : values) wide.push_back(bfloat16_to_float(value.bits));
  return wide;
}

// The shape's output channels in two parts.
std::vector<WinogradShape> split_channels(const Kernels& k, const WinogradShape& s) {
  WinogradShape first = s, second = s;
  first.out_end = second.out_begin = backend::cpu::simd::kWinogradPanel * k.block;
  return {first, second};
}

constexpr float kUntouched = -1234;

// Values that differ from those of the whole in a part's channels, or that the part wrote
// elsewhere.
template <class Channel>
std::int64_t wrong_values(const WinogradShape& part, const std::vector<float>& values,
                          const std::vector<float>& whole, const Channel& channel_of) {
  std::int64_t wrong = 0;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    const std::int64_t channel = channel_of(static_cast<std::int64_t>(i));
    const bool own = channel >= part.out_begin && channel < part.out_end;
    wrong += values[i] != (own ? whole[i] : kUntouched);
  }
  return wrong;
}

}  // namespace

TEST_CASE("Winograd: no bit depends on the strips, nor on the other samples") {
  const Operands in;
  for (const Kernels* k : all_kernels()) {
    INFO(std::string(k->name));
    for (const bool transposed : {false, true}) {
      const auto whole = forward(*k, shape_of(3, 1000, transposed), in);
      for (const std::int64_t tiles : {1, 7, 16, 59}) {
        CHECK(forward(*k, shape_of(3, tiles, transposed), in) == whole);
      }
      const auto one = forward(*k, shape_of(1, 9, transposed), in);
      CHECK(std::equal(one.begin(), one.end(), whole.begin()));
    }
  }
}

TEST_CASE("Winograd: no bit depends on whether y is stored past the caches") {
  const Operands in;
  for (const Kernels* k : all_kernels()) {
    INFO(std::string(k->name));
    for (const FusedActivation activation :
         {FusedActivation::kNone, FusedActivation::kRelu, FusedActivation::kRelu6,
          FusedActivation::kLeakyRelu}) {
      WinogradShape shape = shape_of(3, 16, false);
      shape.activation = activation;
      shape.alpha = 0.3f;
      const auto cached = forward(*k, shape, in);
      shape.non_temporal = true;
      CHECK(forward(*k, shape, in) == cached);
    }
  }
}

TEST_CASE(
    "Winograd: a part of the output channels has the values of a full run and no other writes") {
  const Operands in;
  for (const Kernels* k : all_kernels()) {
    INFO(std::string(k->name));
    for (const bool transposed : {false, true}) {
      for (const std::int64_t tiles : {7, 1000}) {
        const WinogradShape shape = shape_of(3, tiles, transposed);
        const auto whole = forward(*k, shape, in);
        const std::int64_t plane = shape.oh * shape.ow * k->block, blocks = kOut / k->block;
        for (const WinogradShape& part : split_channels(*k, shape)) {
          std::vector<float> y(whole.size(), kUntouched);
          run(*k, part, in, y.data());
          CHECK(wrong_values(part, y, whole,
                             [&](std::int64_t i) { return i / plane % blocks * k->block; }) == 0);
        }
      }
    }
  }
}

TEST_CASE("Winograd: gradients of a part of the output channels are those of the whole") {
  const auto x = numbers(3 * 13 * 18 * kIn, 1), dy = numbers(3 * 13 * 18 * kOut, 4);
  for (const Kernels* k : all_kernels()) {
    INFO(std::string(k->name));
    for (const std::int64_t tiles : {16, 1000}) {
      const auto whole = compute_gradients(*k, shape_of(3, tiles, false), x, dy);
      for (const WinogradShape& part : split_channels(*k, shape_of(3, tiles, false))) {
        std::vector<float> gradients(whole.size(), kUntouched);
        run_weights(*k, part, x, dy, gradients);
        CHECK(wrong_values(part, gradients, whole, [](std::int64_t i) { return i % kOut; }) == 0);
      }
    }
  }
}

TEST_CASE("Winograd: gradients of kernel and bias add up over strips") {
  for (const Kernels* k : all_kernels()) {
    const auto x = numbers(3 * 13 * 18 * kIn, 1), dy = numbers(3 * 13 * 18 * kOut, 4);
    const auto all = compute_gradients(*k, shape_of(3, 1000, false), x, dy);
    const std::vector<double> whole(all.begin(), all.end());
    for (const std::int64_t tiles : {1, 16, 59}) {
      const auto cut = compute_gradients(*k, shape_of(3, tiles, false), x, dy);
      CHECK(distance({cut.begin(), cut.end()}, whole) < 2e-6);
    }
  }
}

TEST_CASE("Winograd: an output in bfloat16 is the rounded output in float32 of the same values") {
  Operands in;
  const auto x = to_bfloat16(in.x);
  in.x = to_float(x);
  for (const Kernels* k : all_kernels()) {
    INFO(std::string(k->name));
    for (const bool transposed : {false, true}) {
      const WinogradShape shape = shape_of(3, 16, transposed);
      const auto expected = forward(*k, shape, in);
      std::vector<BFloat16> y(expected.size());
      std::vector<float> scratch(static_cast<std::size_t>(k->winograd_scratch(shape)));
      find_kernels<Winograd<BFloat16>>(*k).forward(shape, x.data(), in.kernel.data(),
                                                   in.bias.data(), y.data(), scratch.data());
      CHECK(to_float(y) == to_float(to_bfloat16(expected)));
    }
  }
}

TEST_CASE("Winograd: gradients of kernel and bias of bfloat16 are those of the same float32") {
  const auto x = to_bfloat16(numbers(3 * 13 * 18 * kIn, 1));
  const auto dy = to_bfloat16(numbers(3 * 13 * 18 * kOut, 4));
  for (const Kernels* k : all_kernels()) {
    INFO(std::string(k->name));
    const WinogradShape shape = shape_of(3, 16, false);
    CHECK(compute_gradients(*k, shape, x, dy) ==
          compute_gradients(*k, shape, to_float(x), to_float(dy)));
  }
}

TEST_CASE("Winograd computes convolutions in bfloat16 where it is expected to be faster") {
  // On AMD, where it multiplies twice as fast, many channels are needed except for the gradient of
  // weights.
  for (const auto& [filters, pays_on_amd] : {std::pair{16, false}, {256, true}}) {
    const Net net{"one convolution",
                  concat("{layers: [conv: {filters: ", filters,
                         ", padding: same}, global_average_pool, dense: 4]}"),
                  {32, 32, filters}};
    for (const Setup& setup : setups()) {
      if (setup.lanes > 1) continue;
      compile::Options options;
      options.activations = setup.type;
      backend::CompileOptions samples;
      samples.max_samples = 16;
      Runner runner(open(setup), compile::training_graph(forward_graph(net), options), samples);
      std::ostringstream program;
      runner.print(program);
      const bool on_tiles = setup.instruction_set == "amx";
      const bool is_fast = setup.type == DType::kBFloat16 && __builtin_cpu_is("amd");
      CAPTURE(to_string(setup));
      CAPTURE(program.str());
      CHECK(contains(program.str(), "conv winograd") == (!on_tiles && (!is_fast || pays_on_amd)));
      CHECK(contains(program.str(), "conv_backward_weights winograd") == !on_tiles);
    }
  }
}

}  // namespace trainer::test::winograd_test
