// The AMX kernels by themselves against sums in double precision: images cut into strips of rows,
// strips of several images, channels that fill no tile, kernels that fill the cache. All numbers
// that go in are exact in bfloat16.
#include "backend/cpu/simd/amx.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <vector>

#include "backend/cpu/memory.h"
#include "backend/harness.h"
#include "support/skip.h"

namespace trainer::test {
namespace {

using backend::cpu::Memory;
using backend::cpu::simd::AmxKernels;
using backend::cpu::simd::AmxShape;
using backend::cpu::simd::BFloat16;
using backend::cpu::simd::FusedActivation;

constexpr std::int64_t kBlock = 16;

struct Spec {
  std::int64_t n, h, w, in, out;
  std::int64_t kh = 3, kw = 3;
  std::int64_t top = 1, bottom = 1, left = 1, right = 1;
  std::int64_t dilation = 1;
};

AmxShape forward_shape(const Spec& s) {
  const std::int64_t oh = s.h + s.top + s.bottom - (s.kh - 1) * s.dilation;
  const std::int64_t ow = s.w + s.left + s.right - (s.kw - 1) * s.dilation;
  return {s.n,    s.h,  s.w,        oh,         ow,
          s.kh,   s.kw, s.dilation, s.dilation, s.top,
          s.left, s.in, s.out,      false,      FusedActivation::kNone,
          0,      0,    s.out};
}

AmxShape backward_shape(const Spec& s) {
  const AmxShape f = forward_shape(s);
  AmxShape b = f;
  b.h = f.oh, b.w = f.ow, b.oh = f.h, b.ow = f.w;
  b.in = f.out, b.out = b.out_end = f.in;
  b.top = (s.kh - 1) * s.dilation - s.top;
  b.left = (s.kw - 1) * s.dilation - s.left;
  b.transposed = true;
  return b;
}

std::vector<double> numbers(std::int64_t count, std::uint64_t seed) {
  return content({count}, {}, DType::kBFloat16, seed);
}
std::vector<float> floats(const std::vector<double>& values) {
  return {values.begin(), values.end()};
}

// Memory that holds NaN wherever nothing was written, and 64 bytes behind it that nobody may write.
class Poisoned {
 public:
  explicit Poisoned(std::int64_t bytes) : memory_(bytes + 64), bytes_(bytes) {
    std::memset(memory_.data(), 0xFF, static_cast<std::size_t>(bytes + 64));
  }
  ~Poisoned() {
    const char* end = memory_.data() + bytes_;
    CHECK(std::all_of(end, end + 64, [](char c) { return c == '\xFF'; }));
  }
  Poisoned(const Poisoned&) = delete;
  Poisoned& operator=(const Poisoned&) = delete;
  template <class T>
  T* as() const {
    return memory_.as<T>();
  }

 private:
  Memory memory_;
  std::int64_t bytes_;
};

// [n, h, w, c] to blocked planes and back.
struct Blocked {
  std::int64_t n, pixels, c;
  std::int64_t blocks() const { return (c + kBlock - 1) / kBlock; }
  std::int64_t bytes() const { return n * blocks() * pixels * kBlock * 2; }
  std::int64_t at(std::int64_t sample, std::int64_t pixel, std::int64_t channel) const {
    return ((sample * blocks() + channel / kBlock) * pixels + pixel) * kBlock + channel % kBlock;
  }
  template <class F>
  void each(F&& f) const {
    std::int64_t i = 0;
    for (std::int64_t s = 0; s < n; ++s)
      for (std::int64_t p = 0; p < pixels; ++p)
        for (std::int64_t k = 0; k < c; ++k) f(static_cast<std::size_t>(i++), at(s, p, k));
  }
  Memory pack(const std::vector<double>& values) const {
    Memory memory(bytes());
    std::memset(memory.data(), 0, static_cast<std::size_t>(bytes()));
    each([&](std::size_t i, std::int64_t to) {
      const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(values[i]));
      memory.as<BFloat16>()[to].bits = static_cast<std::uint16_t>(bits >> 16);
    });
    return memory;
  }
  std::vector<float> unpack(const BFloat16* from) const {
    std::vector<float> values(static_cast<std::size_t>(n * pixels * c));
    each([&](std::size_t i, std::int64_t at) {
      values[i] = std::bit_cast<float>(std::uint32_t{from[at].bits} << 16);
    });
    return values;
  }
};

// Calls f(x index, y index, kernel index) for every product of a convolution that is not
// transposed.
template <class F>
void each_product(const AmxShape& s, F&& f) {
  for (std::int64_t n = 0; n < s.n; ++n)
    for (std::int64_t p = 0; p < s.oh * s.ow; ++p)
      for (std::int64_t t = 0; t < s.kh * s.kw; ++t) {
        const std::int64_t y = p / s.ow + t / s.kw * s.dh - s.top;
        const std::int64_t x = p % s.ow + t % s.kw * s.dw - s.left;
        if (y < 0 || x < 0 || y >= s.h || x >= s.w) continue;
        for (std::int64_t i = 0; i < s.in; ++i)
          for (std::int64_t o = 0; o < s.out; ++o)
            f(((n * s.h + y) * s.w + x) * s.in + i, (n * s.oh * s.ow + p) * s.out + o,
              (t * s.in + i) * s.out + o);
      }
}

std::vector<float> convolve(const AmxKernels& k, const AmxShape& s, const std::vector<double>& x,
                            const std::vector<double>& kernel, const float* bias) {
  const Memory in = Blocked{s.n, s.h * s.w, s.in}.pack(x);
  const Blocked to{s.n, s.oh * s.ow, s.out};
  const Poisoned packed(k.kernel_bytes(s)), scratch(k.scratch_bytes(s)), y(to.bytes());
  k.pack_kernel(s, floats(kernel).data(), packed.as<BFloat16>());
  k.convolution(s, in.as<BFloat16>(), packed.as<BFloat16>(), bias, y.as<BFloat16>(),
                scratch.as<char>());
  // What pads the channels must be zero, for whoever reads whole blocks.
  for (std::int64_t c = s.out; c < to.blocks() * kBlock; ++c)
    CHECK(y.as<BFloat16>()[to.at(0, 0, c)].bits == 0);
  return to.unpack(y.as<BFloat16>());
}

struct Gradients {
  std::vector<float> kernel, bias;
};
Gradients gradients(const AmxKernels& k, AmxShape s, const std::vector<double>& x,
                    const std::vector<double>& dy, std::int64_t cut) {
  const Memory in = Blocked{s.n, s.h * s.w, s.in}.pack(x);
  const Memory out = Blocked{s.n, s.oh * s.ow, s.out}.pack(dy);
  const std::size_t count = static_cast<std::size_t>(s.kh * s.kw * s.in * s.out);
  Gradients g{std::vector<float>(count, -1),
              std::vector<float>(static_cast<std::size_t>(s.out), -1)};
  for (const auto& [begin, end] : {std::pair{std::int64_t{0}, cut}, std::pair{cut, s.out}}) {
    if (begin == end) continue;
    s.out_begin = begin;
    s.out_end = end;
    const Poisoned scratch(k.weights_scratch_bytes(s));
    k.weights(s, in.as<BFloat16>(), out.as<BFloat16>(), g.kernel.data(), g.bias.data(),
              scratch.as<char>());
  }
  return g;
}

void check_spec(const AmxKernels& k, const Spec& spec) {
  CAPTURE(spec.n);
  CAPTURE(spec.h);
  CAPTURE(spec.in);
  CAPTURE(spec.out);
  const AmxShape s = forward_shape(spec);
  const auto x = numbers(s.n * s.h * s.w * s.in, 1), dy = numbers(s.n * s.oh * s.ow * s.out, 2);
  const auto kernel = numbers(s.kh * s.kw * s.in * s.out, 3), bias = numbers(s.out, 4);
  std::vector<double> y(dy.size()), dx(x.size()), dkernel(kernel.size()), dbias(bias.size());
  for (std::size_t i = 0; i < y.size(); ++i) {
    y[i] = bias[i % bias.size()];
    dbias[i % bias.size()] += dy[i];
  }
  each_product(s, [&](std::int64_t xi, std::int64_t yi, std::int64_t ki) {
    const auto a = static_cast<std::size_t>(xi), b = static_cast<std::size_t>(yi);
    const auto w = static_cast<std::size_t>(ki);
    y[b] += x[a] * kernel[w];
    dx[a] += dy[b] * kernel[w];
    dkernel[w] += x[a] * dy[b];
  });
  // Rounding the results to bfloat16 alone makes 1.7e-3.
  CHECK(distance(convolve(k, s, x, kernel, floats(bias).data()), y) < 2e-3);
  CHECK(distance(convolve(k, backward_shape(spec), dy, kernel, nullptr), dx) < 2e-3);
  const Gradients g = gradients(k, s, x, dy, s.out);
  CHECK(distance(g.kernel, dkernel) < 2e-6);
  CHECK(distance(g.bias, dbias) < 2e-6);
  if (s.out > 32) {
    const Gradients cut = gradients(k, s, x, dy, 32);
    CHECK(cut.kernel == g.kernel);
    CHECK(cut.bias == g.bias);
  }
}

}  // namespace

TEST_CASE("AMX: convolutions and their gradients are those of double precision") {
  const AmxKernels* k = backend::cpu::simd::amx_kernels();
  if (k == nullptr) TRAINER_SKIP("this processor has no AMX");
  check_spec(*k, {.n = 1, .h = 1, .w = 1, .in = 16, .out = 16});
  check_spec(
      *k,
      {.n = 3, .h = 5, .w = 5, .in = 64, .out = 64, .top = 0, .bottom = 0, .left = 0, .right = 0});
  check_spec(*k, {.n = 5,
                  .h = 13,
                  .w = 13,
                  .in = 32,
                  .out = 64,
                  .top = 0,
                  .bottom = 0,
                  .left = 0,
                  .right = 0});
  check_spec(*k, {.n = 2, .h = 9, .w = 6, .in = 17, .out = 41});
  check_spec(*k,
             {.n = 2, .h = 4, .w = 19, .in = 49, .out = 33, .kh = 2, .kw = 4, .top = 0, .left = 2});
  check_spec(
      *k,
      {.n = 2, .h = 8, .w = 7, .in = 20, .out = 24, .top = 2, .bottom = 0, .left = 0, .right = 2});
  check_spec(*k, {.n = 2,
                  .h = 9,
                  .w = 8,
                  .in = 16,
                  .out = 32,
                  .top = 2,
                  .bottom = 2,
                  .left = 2,
                  .right = 2,
                  .dilation = 2});
  check_spec(*k, {.n = 7,
                  .h = 7,
                  .w = 7,
                  .in = 96,
                  .out = 24,
                  .kh = 1,
                  .kw = 1,
                  .top = 0,
                  .bottom = 0,
                  .left = 0,
                  .right = 0});
  // Rows of one image a strip, of unequal numbers.
  check_spec(*k, {.n = 2, .h = 43, .w = 41, .in = 48, .out = 32});
  // Many images a strip, and some left over.
  check_spec(*k, {.n = 41, .h = 6, .w = 5, .in = 32, .out = 16});
  // A kernel that fills the cache.
  check_spec(*k, {.n = 3, .h = 8, .w = 7, .in = 192, .out = 208});
}

TEST_CASE("AMX: no bit depends on the other samples") {
  const AmxKernels* k = backend::cpu::simd::amx_kernels();
  if (k == nullptr) TRAINER_SKIP("this processor has no AMX");
  for (const Spec& all : {Spec{.n = 9, .h = 6, .w = 7, .in = 32, .out = 48},
                          Spec{.n = 3, .h = 40, .w = 41, .in = 48, .out = 16}}) {
    const AmxShape s = forward_shape(all);
    const std::int64_t x_sample = s.h * s.w * s.in;
    const auto x = numbers(s.n * x_sample, 1), kernel = numbers(9 * s.in * s.out, 3);
    const auto whole = convolve(*k, s, x, kernel, nullptr);
    AmxShape one = s;
    one.n = 1;
    for (std::int64_t n = 0; n < s.n; ++n) {
      const auto alone = convolve(
          *k, one, {x.begin() + n * x_sample, x.begin() + (n + 1) * x_sample}, kernel, nullptr);
      CHECK(std::equal(alone.begin(), alone.end(),
                       whole.begin() + n * static_cast<std::int64_t>(alone.size())));
    }
  }
}

}  // namespace trainer::test
