#include "backend/cuda/kernels/elementwise.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "backend/cuda/kernels/activation.h"
#include "backend/cuda/kernels/add.h"
#include "backend/cuda/kernels/dropout.h"
#include "backend/cuda/kernels/preprocess.h"
#include "base/numbers/random.h"
#include "cuda/kernels/array.h"

namespace trainer::test::elementwise_test {
namespace {

namespace cuda = backend::cuda;
using Kind = graph::Activation::Kind;

const std::vector<graph::Activation> kActivations = {
    {Kind::kLinear, 0},       {Kind::kRelu, 0},      {Kind::kRelu6, 0},
    {Kind::kLeakyRelu, 0.2f}, {Kind::kElu, 0.7f},    {Kind::kSigmoid, 0},
    {Kind::kTanh, 0},         {Kind::kGelu, 0},      {Kind::kSwish, 0},
    {Kind::kHardSigmoid, 0},  {Kind::kHardSwish, 0}, {Kind::kSelu, 0},
    {Kind::kNegativePart, 0}};

// Less than a vector, a block and a tail, several blocks.
constexpr std::int64_t kCounts[] = {1, 7, 256, 2051, 6001};

}  // namespace

TEST_CASE("cuda convert rounds to nearest even between all types") {
  for (const DType from : kFloatTypes) {
    for (const DType to : kFloatTypes) {
      for (const std::int64_t count : kCounts) {
        for (const std::int64_t shift : {0, 1}) {
          Array x = Array::random(from, {count}, 3, -3, 3, shift);
          Array y(to, Shape{count}, shift);
          cuda::convert(x.data(), from, y.data(), to, count, nullptr);
          check_equal(y, Array(to, x.tensor()).tensor());
        }
      }
    }
  }
}

TEST_CASE("cuda convert handles ties, overflow, infinity, NaN and denormal numbers") {
  const double infinity = std::numeric_limits<double>::infinity();
  const Tensor values{{9},
                      {1 + 1.0 / 256, 1 + 3.0 / 256, 1 + 1.0 / 2048, 65519, 65520, -infinity,
                       std::nan(""), 3e-8, 1e-40}};
  for (const DType to : kFloatTypes) {
    Array x(kF32, values), y(to, values.shape);
    cuda::convert(x.data(), kF32, y.data(), to, 9, nullptr);
    check_equal(y, Array(to, values).tensor());
  }
}

TEST_CASE("cuda add sums one to eight inputs in their order, also in place") {
  for (const DType type : kFloatTypes) {
    for (std::size_t inputs = 1; inputs <= 8; ++inputs) {
      const std::int64_t count = 777, shift = inputs % 2;
      std::vector<Array> x;
      std::vector<const void*> from;
      Tensor want{{count}, std::vector<double>(777, 0.0)};
      for (std::size_t i = 0; i < inputs; ++i) {
        x.push_back(Array::random(type, {count}, i + 1, -2, 2, shift));
        for (std::int64_t k = 0; k < count; ++k) want[k] += x[i][k];
      }
      for (Array& each : x) from.push_back(each.data());
      Array y(type, Shape{count}, shift);
      cuda::add(from, y.data(), type, count, nullptr);
      check_close(y, want);
      cuda::add(from, x.back().data(), type, count, nullptr);
      CHECK((x.back().bytes() == y.bytes()));
    }
  }
}

TEST_CASE("cuda accumulate adds or assigns") {
  for (const std::int64_t count : kCounts) {
    for (const std::int64_t shift : {0, 3}) {
      for (const bool assign : {false, true}) {
        Array x = Array::random(kF32, {count}, 1, -2, 2, shift);
        Array y = Array::random(kF32, {count}, 2, -2, 2, shift);
        Tensor want = x.tensor();
        for (std::int64_t i = 0; i < count; ++i) want[i] += assign ? 0 : y[i];
        cuda::accumulate(x.as<float>(), y.as<float>(), assign, count, nullptr);
        check_close(y, want);
      }
    }
  }
}

TEST_CASE("cuda activate: all functions and their derivatives match the reference") {
  for (const DType type : kFloatTypes) {
    for (const graph::Activation& activation : kActivations) {
      CAPTURE(static_cast<int>(activation.kind));
      for (const std::int64_t shift : {0, 1}) {
        const std::int64_t count = 1001;
        Array x = Array::random(type, {count}, 5, -8, 8, shift);
        x.set(0, 0);
        x.set(1, 6);
        x.set(2, 3);
        x.set(3, -3);
        Array y(type, Shape{count}, shift);
        cuda::activate(activation, x.data(), y.data(), type, count, nullptr);
        check_close(y, evaluate_op(graph::Activate{activation}, {x.tensor()}, {{count}})[0]);

        Array& s = activation.differentiable_from_output() ? y : x;
        Array dy = Array::random(type, {count}, 6, -2, 2, shift);
        Array dx(type, Shape{count}, shift);
        cuda::activate_backward(activation, s.data(), dy.data(), dx.data(), type, count, nullptr);
        const graph::ActivateBackward op{activation};
        check_close(dx, evaluate_op(op, {s.tensor(), dy.tensor()}, {{count}})[0]);
        cuda::activate_backward(activation, s.data(), dy.data(), dy.data(), type, count, nullptr);
        CHECK((dy.bytes() == dx.bytes()));
      }
    }
  }
}

TEST_CASE("cuda activate: NaN stays NaN where a part is flat or a line") {
  for (const Kind kind : {Kind::kRelu, Kind::kRelu6, Kind::kLeakyRelu, Kind::kHardSigmoid,
                          Kind::kHardSwish, Kind::kSelu, Kind::kNegativePart}) {
    Array x(kF32, Tensor{{1}, {std::nan("")}}), y(kF32, Shape{1});
    y.set(0, 1);
    cuda::activate({kind, 0.1f}, x.data(), y.data(), kF32, 1, nullptr);
    CHECK(std::isnan(y[0]));
  }
}

namespace {

// Computes what lib/backend/cpu/simd/memory.inl does.
Array dropout_on_cpu(const graph::Dropout& op, const Array& x, std::int64_t samples,
                     std::int64_t elements, std::uint64_t step, std::uint64_t first_sample) {
  Array y(x.type(), Shape{samples, elements});
  const float scale = 1.0f / (1.0f - op.rate);
  const auto threshold = static_cast<std::uint32_t>(static_cast<double>(op.rate) * 16777216.0);
  for (std::int64_t s = 0; s < samples; ++s) {
    const std::uint64_t sample = first_sample + static_cast<std::uint64_t>(s);
    for (std::int64_t i = 0; i < elements; ++i) {
      const auto draws =
          philox4x32({static_cast<std::uint32_t>(i / 4), static_cast<std::uint32_t>(sample),
                      static_cast<std::uint32_t>(step),
                      (op.layer << 8) ^ static_cast<std::uint32_t>(step >> 32)},
                     {static_cast<std::uint32_t>(op.seed) ^ 0x04000000u,
                      static_cast<std::uint32_t>(op.seed >> 32)});
      const bool dropped = (draws[static_cast<std::size_t>(i % 4)] >> 8) < threshold;
      const float v = static_cast<float>(x[s * elements + i]) * scale;
      y.set(s * elements + i, dropped ? 0.0 : static_cast<double>(v));
    }
  }
  return y;
}

}  // namespace

TEST_CASE("cuda dropout has the CPU's masks and values bit for bit") {
  for (const DType type : kFloatTypes) {
    for (const std::int64_t elements : {1, 3, 8, 1028, 1030}) {
      for (const std::int64_t shift : {0, 1}) {
        const graph::Dropout op{0.3f, 7, 0x123456789abcdefull};
        const std::int64_t samples = 5;
        Array x = Array::random(type, {samples, elements}, 9, -2, 2, shift);
        Array y(type, Shape{samples, elements}, shift);
        Device<cuda::StepScalars> scalars({});
        scalars->update = (std::uint64_t{3} << 32) + 11;
        scalars->first_sample = 1000;
        cuda::dropout(op, x.data(), y.data(), type, samples, elements, 20, scalars.get(), nullptr);
        const Array want = dropout_on_cpu(op, x, samples, elements, scalars->update, 1020);
        CHECK((y.bytes() == want.bytes()));
      }
    }
  }
}

TEST_CASE("cuda drop_units has the draws of dropout, a channel or a sample at once") {
  using Unit = graph::Dropout::Unit;
  for (const DType type : kFloatTypes) {
    for (const Unit unit : {Unit::kChannel, Unit::kSample}) {
      for (const std::int64_t c : {1, 3, 8, 36, 272}) {
        for (const std::int64_t shift : {0, 1}) {
          const graph::Dropout op{0.4f, 7, 0x123456789abcdefull, unit};
          const std::int64_t samples = 9, rows = c == 3 ? 300 : 5;
          Array x = Array::random(type, {samples, rows, 1, c}, 9, -2, 2, shift);
          Array y(type, Shape{samples, rows, 1, c}, shift);
          Device<cuda::StepScalars> scalars({});
          scalars->update = (std::uint64_t{3} << 32) + 11;
          scalars->first_sample = 1000;
          cuda::drop_units(op, x.data(), y.data(), type, samples, rows, c, 20, scalars.get(),
                           nullptr);
          // The factors are what dropout makes of ones.
          const std::int64_t units = unit == Unit::kChannel ? c : 1;
          Array ones(kF32, Shape{samples, units});
          for (std::int64_t i = 0; i < ones.size(); ++i) ones.set(i, 1);
          const Array factor = dropout_on_cpu(op, ones, samples, units, scalars->update, 1020);
          Array want(type, Shape{samples, rows, 1, c});
          for (std::int64_t i = 0; i < want.size(); ++i) {
            const double f = factor[i / (rows * c) * units + i % c % units];
            want.set(i, static_cast<double>(static_cast<float>(x[i]) * static_cast<float>(f)));
          }
          CHECK((y.bytes() == want.bytes()));
        }
      }
    }
  }
}

TEST_CASE("cuda preprocess reads bytes and floats with channels in both orders") {
  for (const DType to : kFloatTypes) {
    for (const DType from : {DType::kUInt8, kF32}) {
      for (const std::int64_t channels : {1, 3, 5}) {
        for (const bool reverse : {false, true}) {
          const std::int64_t pixels = 611, shift = reverse ? 1 : 0;
          graph::Preprocess op;
          op.scale = 1 / 255.0f;
          op.reverse_channels = reverse;
          Array a(kF32, Shape{channels}), b(kF32, Shape{channels});
          for (std::int64_t c = 0; c < channels; ++c) {
            op.mean.push_back(0.4f + 0.1f * static_cast<float>(c));
            op.std.push_back(0.2f + 0.05f * static_cast<float>(c));
            a.set(c, static_cast<double>(op.scale / op.std.back()));
            b.set(c, static_cast<double>(-op.mean.back() / op.std.back()));
          }
          Array x = Array::random(from, {pixels, 1, 1, channels}, 4, 0, 256, shift);
          Array y(to, Shape{pixels, 1, 1, channels}, shift);
          cuda::preprocess(x.data(), from, y.data(), to, a.as<float>(), b.as<float>(), pixels,
                           channels, reverse, nullptr);
          check_close(y, evaluate_op(op, {x.tensor()}, {{pixels, 1, 1, channels}})[0], 2e-6);
        }
      }
    }
  }
}

TEST_CASE("cuda copy_box does concat, slice, crop and padding of any width and alignment") {
  for (const std::int64_t small : {1, 2, 6, 8, 24, 130}) {
    for (const std::int64_t before : {0, 1, 4, 16}) {
      const std::int64_t n = 3, h = 4, w = 5, large = small + before + 3;
      // A box of `small` bytes a pixel inside images of (h + 2) x (w + 3) pixels of `large` bytes.
      const cuda::BoxPitch tight{h * w * small, w * small, small};
      const cuda::BoxPitch wide{(h + 2) * (w + 3) * large, (w + 3) * large, large};
      const std::int64_t start = (1 * (w + 3) + 2) * large + before;
      Array x = Array::random(DType::kUInt8, {n, h, w, small}, 1, 0, 256);
      Array y = Array::random(DType::kUInt8, {n, h + 2, w + 3, large}, 2, 0, 256);
      Tensor want = y.tensor();
      for (std::int64_t i = 0; i < x.size(); ++i) {
        const std::int64_t pixel = i / small, column = pixel % w, row = pixel / w % h;
        want[pixel / (w * h) * wide.sample + row * wide.row + column * wide.pixel + start +
             i % small] = x[i];
      }
      cuda::copy_box(x.data(), tight, y.as<char>() + start, wide, n, h, w, small, nullptr);
      check_equal(y, want);
      Array back(DType::kUInt8, Shape{n, h, w, small});
      cuda::copy_box(y.as<char>() + start, wide, back.data(), tight, n, h, w, small, nullptr);
      CHECK((back.bytes() == x.bytes()));
    }
  }
}

TEST_CASE("cuda copy_box: whole images are copied at once, and 0 elements not at all") {
  Array x = Array::random(DType::kUInt8, {2, 3, 4, 32}, 1, 0, 256);
  Array y(DType::kUInt8, Shape{2, 3, 4, 32});
  const cuda::BoxPitch pitch{384, 128, 32};
  cuda::copy_box(x.data(), pitch, y.data(), pitch, 2, 3, 4, 32, nullptr);
  CHECK((x.bytes() == y.bytes()));
  cuda::copy_box(x.data(), pitch, y.data(), pitch, 0, 3, 4, 32, nullptr);
}

TEST_CASE(
    "cuda copy_box copies rows without gaps on one side only, and whole vectors at an odd "
    "address") {
  const cuda::BoxPitch tight{384, 128, 32}, wide{1200, 256, 32};
  for (const std::int64_t start : {0, 8, 16}) {
    Array x = Array::random(DType::kUInt8, {2, 3, 4, 32}, 1, 0, 256);
    Array y = Array::random(DType::kUInt8, {2 * 1200}, 2, 0, 256);
    Tensor want = y.tensor();
    for (std::int64_t i = 0; i < x.size(); ++i) {
      want[i / 384 * 1200 + i / 128 % 3 * 256 + i % 128 + start] = x[i];
    }
    cuda::copy_box(x.data(), tight, y.as<char>() + start, wide, 2, 3, 4, 32, nullptr);
    check_equal(y, want);
    Array back(DType::kUInt8, Shape{2, 3, 4, 32});
    cuda::copy_box(y.as<char>() + start, wide, back.data(), tight, 2, 3, 4, 32, nullptr);
    CHECK((back.bytes() == x.bytes()));
  }
}

TEST_CASE("cuda elementwise: counts of 0 start no kernel") {
  cuda::convert(nullptr, kF32, nullptr, kF32, 0, nullptr);
  cuda::accumulate(nullptr, nullptr, false, 0, nullptr);
  cuda::activate({Kind::kRelu, 0}, nullptr, nullptr, kF32, 0, nullptr);
}

}  // namespace trainer::test::elementwise_test
