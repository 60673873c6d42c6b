#include "backend/cuda/kernels/layout.h"

#include <doctest/doctest.h>

#include "cuda/kernels/array.h"

namespace trainer::test {
namespace {

namespace cuda = backend::cuda;

}  // namespace

TEST_CASE("cuda pack_kernels turns HWIO into KRSC in each type, and back") {
  struct Case {
    std::int64_t positions, in, out;
  };
  for (const DType type : kFloatTypes) {
    for (const auto& [positions, in, out] :
         {Case{9, 3, 16}, Case{1, 64, 70}, Case{4, 33, 31}, Case{25, 1, 1}, Case{1, 1, 100}}) {
      const Shape shape{positions, in, out};
      Array hwio = Array::random(kF32, shape, 8);
      Array krsc(type, Shape{out, positions, in});
      const cuda::KernelLayouts packed{hwio.as<float>(), krsc.data(), positions, in, out};
      cuda::pack_kernels({&packed, 1}, type, nullptr);
      const Tensor rounded = Array(type, hwio.tensor()).tensor();
      Tensor want = krsc.tensor();
      for (std::int64_t p = 0; p < positions; ++p) {
        for (std::int64_t i = 0; i < in; ++i) {
          for (std::int64_t o = 0; o < out; ++o) {
            want[(o * positions + p) * in + i] = rounded[(p * in + i) * out + o];
          }
        }
      }
      check_equal(krsc, want);
      Array back(kF32, shape);
      const cuda::KernelLayouts unpacked{back.as<float>(), krsc.data(), positions, in, out};
      cuda::unpack_kernels({&unpacked, 1}, type, nullptr);
      check_equal(back, rounded);
    }
  }
}

TEST_CASE("cuda pack_kernels and unpack_kernels treat many kernels as one by one") {
  // More than one launch has, of several tiles and of one.
  constexpr std::size_t kKernels = 123;
  std::vector<Array> hwio, krsc, alone, back;
  std::vector<cuda::KernelLayouts> packed, unpacked;
  for (std::size_t i = 0; i < kKernels; ++i) {
    const auto n = static_cast<std::int64_t>(i);
    const std::int64_t positions = 1 + n % 9, in = 1 + n * 7 % 40, out = 1 + n * 5 % 70;
    hwio.push_back(Array::random(kF32, Shape{positions, in, out}, static_cast<unsigned>(i)));
    krsc.emplace_back(DType::kBFloat16, Shape{out, positions, in});
    alone.emplace_back(DType::kBFloat16, Shape{out, positions, in});
    back.emplace_back(kF32, Shape{positions, in, out});
    packed.push_back({hwio[i].as<float>(), krsc[i].data(), positions, in, out});
    unpacked.push_back({back[i].as<float>(), krsc[i].data(), positions, in, out});
    const cuda::KernelLayouts one{hwio[i].as<float>(), alone[i].data(), positions, in, out};
    cuda::pack_kernels({&one, 1}, DType::kBFloat16, nullptr);
  }
  cuda::pack_kernels(packed, DType::kBFloat16, nullptr);
  cuda::unpack_kernels(unpacked, DType::kBFloat16, nullptr);
  for (std::size_t i = 0; i < kKernels; ++i) {
    CAPTURE(i);
    check_equal(krsc[i], alone[i].tensor());
    check_equal(back[i], Array(DType::kBFloat16, hwio[i].tensor()).tensor());
  }
}

TEST_CASE("cuda sum_rows gives the same bits in any order for any rows and channels") {
  struct Case {
    std::int64_t rows, c;
  };
  for (const DType type : kFloatTypes) {
    for (const auto& [rows, c] : {Case{1, 1}, Case{5, 8}, Case{300, 3}, Case{2500, 24},
                                  Case{77, 264}, Case{9001, 1}, Case{640, 100}}) {
      for (const std::int64_t shift : {0, 1}) {
        CAPTURE(rows);
        CAPTURE(c);
        Array x = Array::random(type, {rows, c}, 2, -1, 2, shift);
        Tensor want{{c}, std::vector<double>(static_cast<std::size_t>(c))};
        for (std::int64_t i = 0; i < x.size(); ++i) want[i % c] += x[i];
        const std::vector<Array> sums = check_repeats([&, rows = rows, c = c] {
          std::vector<Array> made;
          Array scratch(DType::kUInt8, Shape{cuda::sum_rows_scratch(rows, c)});
          made.emplace_back(kF32, Shape{c});
          cuda::sum_rows(x.data(), type, rows, c, made[0].as<float>(), scratch.data(), nullptr);
          return made;
        });
        check_close(sums[0], want, 1e-6 * static_cast<double>(rows));
      }
    }
  }
}

TEST_CASE("cuda add_bias adds counts that are and are not a multiple of a vector") {
  for (const DType type : kFloatTypes) {
    for (const std::int64_t c : {1, 5, 8, 48, 520}) {
      for (const std::int64_t shift : {0, 1}) {
        const std::int64_t rows = 67;
        Array y = Array::random(type, {rows, c}, 2, -2, 2, shift);
        Array bias = Array::random(kF32, {c}, 3);
        Tensor want = y.tensor();
        for (std::int64_t i = 0; i < y.size(); ++i) want[i] += bias[i % c];
        cuda::add_bias(y.data(), type, bias.as<float>(), rows, c, nullptr);
        check_close(y, want);
      }
    }
  }
}

}  // namespace trainer::test
