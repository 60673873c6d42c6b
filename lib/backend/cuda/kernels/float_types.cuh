// float32, bfloat16 and float16 in device memory. Kernels compute in float32: load() widens,
// store() rounds to nearest even. Several elements of one thread move as 16 bytes at once.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "backend/cuda/kernels/launch.h"
#include "base/types.h"

#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#else
#include "base/numbers/half.h"
#endif

namespace trainer::backend::cuda {

struct BFloat16 {
  std::uint16_t bits;
};
struct Float16 {
  std::uint16_t bits;
};

__device__ inline float to_float(float x) { return x; }
__device__ inline void assign(float& to, float x) { to = x; }

#ifdef __CUDACC__
__device__ inline float to_float(BFloat16 x) {
  return __uint_as_float(static_cast<unsigned>(x.bits) << 16);
}
__device__ inline float to_float(Float16 x) { return __half2float(__ushort_as_half(x.bits)); }
__device__ inline void assign(BFloat16& to, float x) {
  to.bits = __bfloat16_as_ushort(__float2bfloat16_rn(x));
}
__device__ inline void assign(Float16& to, float x) {
  to.bits = __half_as_ushort(__float2half_rn(x));
}
#else
inline float to_float(BFloat16 x) { return bfloat16_to_float(x.bits); }
inline float to_float(Float16 x) { return float16_to_float(x.bits); }
inline void assign(BFloat16& to, float x) { to.bits = float_to_bfloat16(x); }
inline void assign(Float16& to, float x) { to.bits = float_to_float16(x); }
#endif

// x as a T holds it.
template <class T>
__device__ inline float rounded(float x) {
  T to;
  assign(to, x);
  return to_float(to);
}

// Elements of T in 16 bytes.
template <class T>
inline constexpr int kVector = 16 / static_cast<int>(sizeof(T));

// N elements that one instruction moves.
template <class T, int N>
struct alignas(sizeof(T) * N) Pack {
  T value[N];
};

template <class T, int N>
__device__ inline Pack<T, N> load_pack(const T* from) {
#ifndef __CUDACC__
  simt::check_aligned(from, sizeof(T) * N);
#endif
  return *reinterpret_cast<const Pack<T, N>*>(from);
}
template <class T, int N>
__device__ inline void store_pack(T* to, const Pack<T, N>& pack) {
#ifndef __CUDACC__
  simt::check_aligned(to, sizeof(T) * N);
#endif
  *reinterpret_cast<Pack<T, N>*>(to) = pack;
}

// N elements at `from`, which is aligned to the lesser of 16 bytes and N elements.
template <int N, class T>
__device__ inline void load(const T* from, float (&to)[N]) {
  constexpr int kPack = N < kVector<T> ? N : kVector<T>;
  for (int i = 0; i < N; i += kPack) {
    const Pack<T, kPack> pack = load_pack<T, kPack>(from + i);
    for (int k = 0; k < kPack; ++k) to[i + k] = to_float(pack.value[k]);
  }
}
template <int N, class T>
__device__ inline void store(const float (&from)[N], T* to) {
  constexpr int kPack = N < kVector<T> ? N : kVector<T>;
  for (int i = 0; i < N; i += kPack) {
    Pack<T, kPack> pack;
    for (int k = 0; k < kPack; ++k) assign(pack.value[k], from[i + k]);
    store_pack<T, kPack>(to + i, pack);
  }
}

// The first `left` of N elements; the rest are zeros, or stay as they are.
template <int N, class T>
__device__ inline void load(const T* from, std::int64_t left, float (&to)[N]) {
  if (left >= N) return load<N>(from, to);
  for (int k = 0; k < N; ++k) to[k] = k < left ? to_float(from[k]) : 0.0f;
}
template <int N, class T>
__device__ inline void store(const float (&from)[N], std::int64_t left, T* to) {
  if (left >= N) return store<N>(from, to);
  for (int k = 0; k < N; ++k) {
    if (k < left) assign(to[k], from[k]);
  }
}

// Returns whether all pointers are aligned to 16 bytes; null is aligned.
inline bool aligned(std::initializer_list<const void*> pointers) {
  return std::all_of(pointers.begin(), pointers.end(), [](const void* pointer) {
    return reinterpret_cast<std::uintptr_t>(pointer) % 16 == 0;
  });
}

// Calls f.template operator()<T>() with the element type of activations.
template <class F>
void with_type(DType type, const F& f) {
  if (type == DType::kBFloat16) return f.template operator()<BFloat16>();
  if (type == DType::kFloat16) return f.template operator()<Float16>();
  f.template operator()<float>();
}

// Calls f<T, N>: threads take N elements at once, as many as 16 bytes hold, or 1 without `vectors`.
template <class F>
void with_vectors(DType type, bool vectors, const F& f) {
  with_type(type, [&]<class T>() {
    if (vectors) return f.template operator()<T, kVector<T>>();
    f.template operator()<T, 1>();
  });
}
// Calls f<T, N> for rows of c elements; N is 1 if they are not whole vectors.
template <class F>
void with_row_vectors(DType type, std::int64_t c, bool all_aligned, const F& f) {
  with_type(type, [&]<class T>() {
    if (all_aligned && c % kVector<T> == 0) return f.template operator()<T, kVector<T>>();
    f.template operator()<T, 1>();
  });
}

}  // namespace trainer::backend::cuda
