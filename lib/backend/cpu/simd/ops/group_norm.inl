// Normalization of groups of channels within a sample or pixel. Sums are in double: a sum in float
// of values whose mean is far from zero would lose digits.
#pragma once

#include "backend/cpu/simd/kernels.h"

namespace trainer::backend::cpu::simd {

// x as [outer, pixels, groups * channels], normalised over the pixels and channels of a group.
struct GroupShape {
  std::int64_t outer, pixels, groups, channels;
  float epsilon;

  // The scratch memory of backward(): a float and a double per gradient of gamma and beta.
  std::int64_t scratch_bytes() const {
    return 2 * groups * channels * static_cast<std::int64_t>(sizeof(float) + sizeof(double));
  }
};

template <class T>
struct GroupNormKernels {
  // dgamma and dbeta are set, `scratch` holds scratch_bytes().
  void (*forward)(const GroupShape&, const T* x, const float* gamma, const float* beta, T* y);
  void (*backward)(const GroupShape&, const T* x, const T* dy, const float* gamma, T* dx,
                   float* dgamma, float* dbeta, void* scratch);
};

}  // namespace trainer::backend::cpu::simd

#ifdef TRAINER_BLOCK
namespace trainer::backend::cpu::simd::TRAINER_LEVEL {
namespace {

using D = double __attribute__((vector_size(8 * TRAINER_BLOCK)));

inline double add_elements(const D& v) {
  double sum = 0;
  for (std::int64_t c = 0; c < B; ++c) sum += v[c];
  return sum;
}

struct GroupMoments {
  float mean, inverse_std;
};

// Returns the moments over the pixels and channels of one group, whose first value is x[0]. It sums
// differences from that value, so that one pass over the group gives both moments.
template <class T>
inline GroupMoments group_moments(const GroupShape& s, const T* x) {
  const std::int64_t row = s.groups * s.channels, whole = s.channels - s.channels % B;
  const double count = static_cast<double>(s.pixels * s.channels);
  const double shift = static_cast<double>(get(x));
  D sums{}, squares{};
  double sum = 0, square = 0;
  for (std::int64_t p = 0; p < s.pixels; ++p) {
    const T* in = x + p * row;
    for (std::int64_t c = 0; c < whole; c += B) {
      const D d = __builtin_convertvector(load(in + c), D) - shift;
      sums += d;
      squares += d * d;
    }
    // Each pixel has a sum of its own, so that the additions of several pixels overlap.
    double part = 0, square_part = 0;
    for (std::int64_t c = whole; c < s.channels; ++c) {
      const double d = static_cast<double>(get(in + c)) - shift;
      part += d;
      square_part += d * d;
    }
    sum += part;
    square += square_part;
  }
  const double mean = (sum + add_elements(sums)) / count;
  const double variance = (square + add_elements(squares)) / count - mean * mean;
  const float positive = variance > 0 ? static_cast<float>(variance) : 0.0f;
  return {static_cast<float>(shift + mean), 1.0f / __builtin_sqrtf(positive + s.epsilon)};
}

template <class T>
void group_norm(const GroupShape& s, const T* x, const float* gamma, const float* beta, T* y) {
  const std::int64_t row = s.groups * s.channels;
  for (std::int64_t o = 0; o < s.outer; ++o) {
    for (std::int64_t g = 0; g < s.groups; ++g) {
      const std::int64_t at = o * s.pixels * row + g * s.channels;
      const GroupMoments m = group_moments(s, x + at);
      const float *scale = gamma + g * s.channels, *shift = beta + g * s.channels;
      for (std::int64_t p = 0; p < s.pixels; ++p) {
        const T* in = x + at + p * row;
        T* out = y + at + p * row;
        for (std::int64_t c = 0; c < s.channels; ++c)
          put(out + c, (get(in + c) - m.mean) * m.inverse_std * scale[c] + shift[c]);
      }
    }
  }
}

// The sums of the gradients of gamma and beta over pixels. It sums up to kPixels pixels of a
// channel in float, and adds these sums in double. `scratch` holds GroupShape::scratch_bytes().
class GroupSums {
 public:
  static constexpr std::int64_t kPixels = 64;

  GroupSums(std::int64_t row, void* scratch)
      : row_(row),
        gamma_(static_cast<double*>(scratch)),
        beta_(gamma_ + row),
        few_gamma(reinterpret_cast<float*>(beta_ + row)),
        few_beta(few_gamma + row) {
    for (std::int64_t c = 0; c < row; ++c) gamma_[c] = beta_[c] = few_gamma[c] = few_beta[c] = 0;
  }

  // Adds the sums in float of some channels to those in double, and clears them.
  void add_few(std::int64_t first, std::int64_t count) {
    for (std::int64_t c = first; c < first + count; ++c) {
      gamma_[c] += static_cast<double>(few_gamma[c]);
      beta_[c] += static_cast<double>(few_beta[c]);
      few_gamma[c] = few_beta[c] = 0;
    }
  }
  void store(float* dgamma, float* dbeta) {
    add_few(0, row_);
    for (std::int64_t c = 0; c < row_; ++c) {
      dgamma[c] = static_cast<float>(gamma_[c]);
      dbeta[c] = static_cast<float>(beta_[c]);
    }
  }

 private:
  std::int64_t row_;
  double *gamma_, *beta_;

 public:
  float *few_gamma, *few_beta;
};

// The sums of q and q * n (see group_norm_backward()) over one group: qs and qns of whole vectors,
// q and qn of the channels behind them.
struct GroupGradientSums {
  D qs{}, qns{};
  double q = 0, qn = 0;
};

// Adds one pixel of a group to the sums. All pointers point to the group's first channel.
template <class T>
inline void add_pixel(const GroupMoments& m, std::int64_t channels, const T* x, const T* dy,
                      const float* gamma, float* few_gamma, float* few_beta,
                      GroupGradientSums& sums) {
  const std::int64_t whole = channels - channels % B;
  for (std::int64_t c = 0; c < whole; c += B) {
    const V d = load(dy + c), n = (load(x + c) - m.mean) * m.inverse_std;
    const V q = d * load(gamma + c);
    sums.qs += __builtin_convertvector(q, D);
    sums.qns += __builtin_convertvector(q * n, D);
    store(few_gamma + c, load(few_gamma + c) + d * n);
    store(few_beta + c, load(few_beta + c) + d);
  }
  double q_part = 0, qn_part = 0;
  for (std::int64_t c = whole; c < channels; ++c) {
    const float d = get(dy + c), n = (get(x + c) - m.mean) * m.inverse_std;
    const float q = d * gamma[c];
    q_part += static_cast<double>(q);
    qn_part += static_cast<double>(q * n);
    few_gamma[c] += d * n;
    few_beta[c] += d;
  }
  sums.q += q_part;
  sums.qn += qn_part;
}

// With n = (x - mean) / std and q = dy * gamma: dx = (q - mean(q) - n * mean(q * n)) / std, the
// means over the group.
template <class T>
void group_norm_backward(const GroupShape& s, const T* x, const T* dy, const float* gamma, T* dx,
                         float* dgamma, float* dbeta, void* scratch) {
  const std::int64_t row = s.groups * s.channels;
  const double count = static_cast<double>(s.pixels * s.channels);
  GroupSums all(row, scratch);
  std::int64_t few_pixels = 0;
  for (std::int64_t o = 0; o < s.outer; ++o) {
    for (std::int64_t g = 0; g < s.groups; ++g) {
      const std::int64_t first = g * s.channels, at = o * s.pixels * row + first;
      const GroupMoments m = group_moments(s, x + at);
      GroupGradientSums sums;
      for (std::int64_t p = 0; p < s.pixels; ++p) {
        add_pixel(m, s.channels, x + at + p * row, dy + at + p * row, gamma + first,
                  all.few_gamma + first, all.few_beta + first, sums);
        if ((p + 1) % GroupSums::kPixels == 0) all.add_few(first, s.channels);
      }
      const float mean_q = static_cast<float>((sums.q + add_elements(sums.qs)) / count);
      const float mean_qn = static_cast<float>((sums.qn + add_elements(sums.qns)) / count);
      for (std::int64_t p = 0; p < s.pixels; ++p) {
        const T *in = x + at + p * row, *slope = dy + at + p * row;
        T* out = dx + at + p * row;
        for (std::int64_t c = 0; c < s.channels; ++c) {
          const float n = (get(in + c) - m.mean) * m.inverse_std;
          put(out + c, (get(slope + c) * gamma[first + c] - mean_q - n * mean_qn) * m.inverse_std);
        }
      }
    }
    few_pixels += s.pixels % GroupSums::kPixels;
    if (few_pixels < GroupSums::kPixels) continue;
    few_pixels = 0;
    all.add_few(0, row);
  }
  all.store(dgamma, dbeta);
}

template <class T>
constexpr GroupNormKernels<T> kKernels<GroupNormKernels<T>> = {
    .forward = group_norm<T>,
    .backward = group_norm_backward<T>,
};

}  // namespace

template const GroupNormKernels<float>& find_kernels();
template const GroupNormKernels<BFloat16>& find_kernels();

}  // namespace trainer::backend::cpu::simd::TRAINER_LEVEL
#endif
