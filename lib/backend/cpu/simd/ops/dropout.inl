// graph::Dropout.
#pragma once

#include "backend/cpu/simd/kernels.h"

namespace trainer::backend::cpu::simd {

template <class T>
struct DropoutKernels {
  // Keeps element i of sample s with the draw of (key, counter {i / 4, step, sample, layer}).
  void (*dropout)(const T* x, T* y, std::int64_t samples, std::int64_t elements, float rate,
                  std::uint64_t seed, std::uint32_t layer, std::uint64_t step,
                  std::uint64_t first_sample);
};

}  // namespace trainer::backend::cpu::simd

#ifdef TRAINER_BLOCK
namespace trainer::backend::cpu::simd::TRAINER_LEVEL {
namespace {

// The same Philox4x32-10 as in base/numbers/random.h, written so that the compiler vectorises it.
inline void philox(std::uint32_t (&c)[4], std::uint32_t k0, std::uint32_t k1) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53u} * c[0];
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57u} * c[2];
    const std::uint32_t c1 = c[1], c3 = c[3];
    c[0] = static_cast<std::uint32_t>(p1 >> 32) ^ c1 ^ k0;
    c[1] = static_cast<std::uint32_t>(p1);
    c[2] = static_cast<std::uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c[3] = static_cast<std::uint32_t>(p0);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
}

template <class T>
void dropout(const T* x, T* y, std::int64_t samples, std::int64_t elements, float rate,
             std::uint64_t seed, std::uint32_t layer, std::uint64_t step,
             std::uint64_t first_sample) {
  const float scale = 1.0f / (1.0f - rate);
  const std::uint32_t threshold =
      static_cast<std::uint32_t>(static_cast<double>(rate) * 16777216.0);
  for (std::int64_t s = 0; s < samples; ++s, x += elements, y += elements) {
    const std::uint64_t sample = first_sample + static_cast<std::uint64_t>(s);
    for (std::int64_t i = 0; i < elements; i += 4) {
      std::uint32_t c[4] = {static_cast<std::uint32_t>(i / 4), static_cast<std::uint32_t>(sample),
                            static_cast<std::uint32_t>(step),
                            (layer << 8) ^ static_cast<std::uint32_t>(step >> 32)};
      philox(c, static_cast<std::uint32_t>(seed) ^ 0x04000000u,
             static_cast<std::uint32_t>(seed >> 32));
      for (std::int64_t k = 0; k < 4 && i + k < elements; ++k) {
        const float v = get(x + i + k) * scale;
        put(y + i + k, (c[k] >> 8) < threshold ? 0.0f : v);
      }
    }
  }
}

template <class T>
constexpr DropoutKernels<T> kKernels<DropoutKernels<T>> = {
    .dropout = dropout<T>,
};

}  // namespace

template const DropoutKernels<float>& find_kernels();
template const DropoutKernels<BFloat16>& find_kernels();

}  // namespace trainer::backend::cpu::simd::TRAINER_LEVEL
#endif
