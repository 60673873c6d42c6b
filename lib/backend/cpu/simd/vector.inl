// Vectors of one block of floats, on GCC's vector extensions. Included inside a namespace per
// instruction set, after <immintrin.h>: TRAINER_BLOCK floats per vector.

constexpr std::int64_t B = TRAINER_BLOCK;

using V = float __attribute__((vector_size(4 * TRAINER_BLOCK)));
using I = std::int32_t __attribute__((vector_size(4 * TRAINER_BLOCK)));
using U = std::uint32_t __attribute__((vector_size(4 * TRAINER_BLOCK)));
using H = std::uint16_t __attribute__((vector_size(2 * TRAINER_BLOCK)));
using C = std::uint8_t __attribute__((vector_size(TRAINER_BLOCK)));

inline std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
inline std::int64_t least(std::int64_t a, std::int64_t b) { return a < b ? a : b; }
// Rounds up to a multiple of B.
inline std::int64_t round_up(std::int64_t a) { return ceil_div(a, B) * B; }

inline V splat(float x) { return V{} + x; }

inline V load(const float* p) {
  V v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}
inline void store(float* p, V v) { __builtin_memcpy(p, &v, sizeof v); }

// Stores past the caches: p is aligned to a vector. Other threads are sure to see the value only
// after fence_non_temporal_stores().
inline void store_non_temporal(float* p, V v) {
#if TRAINER_BLOCK == 16
  _mm512_stream_ps(p, v);
#else
  _mm256_stream_ps(p, v);
#endif
}
inline void fence_non_temporal_stores() { _mm_sfence(); }

inline V load(const BFloat16* p) {
  H half;
  __builtin_memcpy(&half, p, sizeof half);
  const U wide = __builtin_convertvector(half, U) << 16;
  V v;
  __builtin_memcpy(&v, &wide, sizeof v);
  return v;
}
// Returns the bits of bfloat16 numbers for the bits of floats, as float_to_bfloat16() of
// base/numbers/half.h does: the nearest number, the even one on a tie; a NaN stays a quiet NaN,
// also if all bits of its payload are set.
template <class Bits>
inline Bits round_to_bfloat16(Bits u) {
  const Bits number = (u + 0x7FFFu + (u >> 16 & 1u)) >> 16, nan = u >> 16 | 0x40u;
  return (u & 0x7FFFFFFFu) > 0x7F800000u ? nan : number;
}
inline void store(BFloat16* p, V v) {
  U u;
  __builtin_memcpy(&u, &v, sizeof u);
  const H half = __builtin_convertvector(round_to_bfloat16(u), H);
  __builtin_memcpy(p, &half, sizeof half);
}

inline float get(const float* p) { return *p; }
inline float get(const BFloat16* p) {
  const std::uint32_t u = static_cast<std::uint32_t>(p->bits) << 16;
  float f;
  __builtin_memcpy(&f, &u, 4);
  return f;
}
inline void put(float* p, float x) { *p = x; }
inline void put(BFloat16* p, float x) {
  std::uint32_t u;
  __builtin_memcpy(&u, &x, 4);
  p->bits = static_cast<std::uint16_t>(round_to_bfloat16(u));
}

inline V select(I mask, V a, V b) { return mask ? a : b; }
// Returns whether v replaces a maximum: the first of equal numbers stays. A NaN replaces every
// number and stays, so that the loss shows it.
inline I wins(V v, V best) { return ~(v <= best) & (best == best); }

// e^x for x up to about 88; 0 for x below -86.
inline V exponential(V x) {
  constexpr float kLog2E = 1.44269504f, kLn2High = 0.693359375f, kLn2Low = -2.12194440e-4f;
  constexpr float kRound =
      12582912.0f;  // 1.5 * 2^23, whose sum with a number ends in its nearest integer
  const V shifted = x * kLog2E + kRound, n = shifted - kRound;
  const V r = x - n * kLn2High - n * kLn2Low;
  V p = r * 1.9875691500e-4f + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  U bits;
  __builtin_memcpy(&bits, &shifted, sizeof bits);
  bits = (bits + 127u) << 23;
  V power;
  __builtin_memcpy(&power, &bits, sizeof power);
  return select(x < -86.0f, V{}, p * power);
}

// Loads the first `count` of B numbers, zeros for the rest.
template <class T>
inline V load_first(const T* p, std::int64_t count) {
  if (count >= B) return load(p);
  alignas(64) T values[B] = {};
  for (std::int64_t i = 0; i < count; ++i) values[i] = p[i];
  return load(values);
}
template <class T>
inline void store_first(T* p, V v, std::int64_t count) {
  if (count >= B) return store(p, v);
  alignas(64) T values[B];
  store(values, v);
  for (std::int64_t i = 0; i < count; ++i) p[i] = values[i];
}
// Calls f(first, count) for vectors of B numbers and for the rest.
template <class F>
inline void over_vectors(std::int64_t numbers, const F& f) {
  std::int64_t i = 0;
  for (; i + B <= numbers; i += B) f(i, B);
  if (i < numbers) f(i, numbers - i);
}

// Exchanges, of each two neighbouring groups of D numbers, the second one of a with the first one
// of b.
template <int D, std::size_t... J>
inline void swap_groups(V& a, V& b, std::index_sequence<J...>) {
  constexpr int kBlock = TRAINER_BLOCK;
  const V low = __builtin_shufflevector(
      a, b, ((J & D) == 0 ? static_cast<int>(J) : kBlock + static_cast<int>(J) - D)...);
  b = __builtin_shufflevector(
      a, b, ((J & D) == 0 ? static_cast<int>(J) + D : kBlock + static_cast<int>(J))...);
  a = low;
}

// Swaps the rows and columns of B x B numbers.
template <int D>
inline void transpose_step(V (&v)[B]) {
  if constexpr (D < B) {
#pragma GCC unroll 16
    for (int i = 0; i < B; ++i) {
      if ((i & D) == 0) swap_groups<D>(v[i], v[i + D], std::make_index_sequence<B>());
    }
    transpose_step<2 * D>(v);
  }
}

inline C load_index(const std::uint8_t* p) {
  C c;
  __builtin_memcpy(&c, p, sizeof c);
  return c;
}
inline I widen(C c) { return __builtin_convertvector(c, I); }
inline void store_index(std::uint8_t* p, I index) {
  const C c = __builtin_convertvector(index, C);
  __builtin_memcpy(p, &c, sizeof c);
}

// Returns g times the derivative of the activation, given its output y.
template <FusedActivation activation>
inline V through(V g, V y, float alpha) {
  if constexpr (activation == FusedActivation::kRelu) return select(y > 0, g, V{});
  if constexpr (activation == FusedActivation::kRelu6) return select((y > 0) & (y < 6), g, V{});
  if constexpr (activation == FusedActivation::kLeakyRelu) return select(y > 0, g, g * alpha);
  return g;
}
// Applies the activation. A NaN stays a NaN.
template <FusedActivation activation>
inline V activate(V x, float alpha) {
  if constexpr (activation == FusedActivation::kRelu) return select(x < 0, V{}, x);
  if constexpr (activation == FusedActivation::kRelu6)
    return select(x < 0, V{}, select(x > 6, splat(6), x));
  if constexpr (activation == FusedActivation::kLeakyRelu) return select(x < 0, x * alpha, x);
  return x;
}

// Calls f with the activation as a compile-time constant.
template <class F>
inline void with_activation(FusedActivation activation, F&& f) {
  switch (activation) {
    case FusedActivation::kNone:
      return f.template operator()<FusedActivation::kNone>();
    case FusedActivation::kRelu:
      return f.template operator()<FusedActivation::kRelu>();
    case FusedActivation::kRelu6:
      return f.template operator()<FusedActivation::kRelu6>();
    case FusedActivation::kLeakyRelu:
      return f.template operator()<FusedActivation::kLeakyRelu>();
  }
}
