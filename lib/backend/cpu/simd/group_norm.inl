// Normalization of groups of channels within a sample or pixel.

struct GroupMoments {
  float mean, inverse_std;
};

// Of the pixels and channels of one group; x is its first number.
template <class T>
inline GroupMoments group_moments(const GroupShape& s, const T* x) {
  const std::int64_t row = s.groups * s.channels;
  const double count = static_cast<double>(s.pixels * s.channels);
  double sum = 0, squares = 0;
  for (std::int64_t p = 0; p < s.pixels; ++p) {
    float part = 0;
    for (std::int64_t c = 0; c < s.channels; ++c) part += get(x + p * row + c);
    sum += static_cast<double>(part);
  }
  const float mean = static_cast<float>(sum / count);
  for (std::int64_t p = 0; p < s.pixels; ++p) {
    float part = 0;
    for (std::int64_t c = 0; c < s.channels; ++c) {
      const float d = get(x + p * row + c) - mean;
      part += d * d;
    }
    squares += static_cast<double>(part);
  }
  return {mean, 1.0f / __builtin_sqrtf(static_cast<float>(squares / count) + s.epsilon)};
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

// With n = (x - mean) / std and q = dy * gamma: dx = (q - mean(q) - n * mean(q * n)) / std, the means over
// the group.
template <class T>
void group_norm_backward(const GroupShape& s, const T* x, const T* dy, const float* gamma, T* dx, float* dgamma,
                         float* dbeta, float* scratch) {
  constexpr std::int64_t kPixels = 64;  // summed before they are added to the sums of all
  const std::int64_t row = s.groups * s.channels;
  const double count = static_cast<double>(s.pixels * s.channels);
  float *few_gamma = scratch, *few_beta = scratch + row;
  for (std::int64_t c = 0; c < row; ++c) dgamma[c] = dbeta[c] = few_gamma[c] = few_beta[c] = 0;
  std::int64_t summed = 0;
  for (std::int64_t o = 0; o < s.outer; ++o) {
    for (std::int64_t g = 0; g < s.groups; ++g) {
      const std::int64_t first = g * s.channels, at = o * s.pixels * row + first;
      const GroupMoments m = group_moments(s, x + at);
      double sum_q = 0, sum_qn = 0;
      for (std::int64_t p = 0; p < s.pixels; ++p) {
        const T *in = x + at + p * row, *slope = dy + at + p * row;
        float q_part = 0, qn_part = 0;
        for (std::int64_t c = 0; c < s.channels; ++c) {
          const float d = get(slope + c), n = (get(in + c) - m.mean) * m.inverse_std;
          const float q = d * gamma[first + c];
          q_part += q;
          qn_part += q * n;
          few_gamma[first + c] += d * n;
          few_beta[first + c] += d;
        }
        sum_q += static_cast<double>(q_part);
        sum_qn += static_cast<double>(qn_part);
      }
      const float mean_q = static_cast<float>(sum_q / count), mean_qn = static_cast<float>(sum_qn / count);
      for (std::int64_t p = 0; p < s.pixels; ++p) {
        const T *in = x + at + p * row, *slope = dy + at + p * row;
        T* out = dx + at + p * row;
        for (std::int64_t c = 0; c < s.channels; ++c) {
          const float n = (get(in + c) - m.mean) * m.inverse_std;
          put(out + c, (get(slope + c) * gamma[first + c] - mean_q - n * mean_qn) * m.inverse_std);
        }
      }
    }
    summed += s.pixels;
    if (summed < kPixels && o + 1 < s.outer) continue;
    summed = 0;
    for (std::int64_t c = 0; c < row; ++c) {
      dgamma[c] += few_gamma[c];
      dbeta[c] += few_beta[c];
      few_gamma[c] = few_beta[c] = 0;
    }
  }
}
