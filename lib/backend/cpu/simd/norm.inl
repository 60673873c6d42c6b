// Batch normalisation over blocked planes. Sums run in float over one run of pixels, again over the runs
// of one plane, and in double over planes: one sum over 112x112 pixels would lose two digits, which
// the masks of relu6 further up turn into wrong gradients.

inline std::int64_t run_end(std::int64_t i, std::int64_t pixels) {
  constexpr std::int64_t kRun = 64;
  return pixels - i < kRun ? pixels : i + kRun;
}

template <class T>
void moments(const PlaneShape& s, const T* x, const float* shift, Moments* out) {
  for (std::int64_t n = 0; n < s.n; ++n) {
    for (std::int64_t b = 0; b < s.blocks; ++b) {
      const V origin = load(shift + b * B);
      V sum{}, square{};
      for (std::int64_t i = 0; i < s.pixels;) {
        V run_sum{}, run_square{};
        for (const std::int64_t end = run_end(i, s.pixels); i < end; ++i, x += B) {
          const V d = load(x) - origin;
          run_sum += d;
          run_square += d * d;
        }
        sum += run_sum;
        square += run_square;
      }
      for (std::int64_t c = 0; c < B; ++c) {
        out[b * B + c].sum += static_cast<double>(sum[c]);
        out[b * B + c].square += static_cast<double>(square[c]);
      }
    }
  }
}

template <class T>
void scale_shift(const PlaneShape& s, const T* x, const float* mean, const float* a, const float* b,
                 Gate gate, float alpha, T* y) {
  with_gate(gate, [&]<Gate g>() {
    for (std::int64_t n = 0; n < s.n; ++n)
      for (std::int64_t k = 0; k < s.blocks; ++k) {
        const V m = load(mean + k * B), va = load(a + k * B), vb = load(b + k * B);
        for (std::int64_t i = 0; i < s.pixels; ++i, x += B, y += B)
          store(y, activate<g>((load(x) - m) * va + vb, alpha));
      }
  });
}

template <class T>
void norm_sums(const PlaneShape& s, const T* x, const T* dy, const T* y, const float* mean,
               const float* inverse_std, Gate gate, float alpha, GradientSums* sums) {
  with_gate(gate, [&]<Gate gt>() {
    for (std::int64_t n = 0; n < s.n; ++n)
      for (std::int64_t k = 0; k < s.blocks; ++k) {
        const V m = load(mean + k * B), is = load(inverse_std + k * B);
        V sum{}, product{};
        for (std::int64_t i = 0; i < s.pixels;) {
          V run_sum{}, run_product{};
          for (const std::int64_t end = run_end(i, s.pixels); i < end;
               ++i, x += B, dy += B) {
            V g = load(dy);
            if constexpr (gt != Gate::kNone) {
              g = through<gt>(g, load(y), alpha);
              y += B;
            }
            run_sum += g;
            run_product += g * ((load(x) - m) * is);
          }
          sum += run_sum;
          product += run_product;
        }
        for (std::int64_t c = 0; c < B; ++c) {
          sums[k * B + c].sum_g += static_cast<double>(sum[c]);
          sums[k * B + c].sum_g_xhat += static_cast<double>(product[c]);
        }
      }
  });
}

template <class T>
void norm_backward(const PlaneShape& s, const T* x, const T* dy, const T* y, const float* mean,
                   const float* p, const float* q, const float* r, Gate gate, float alpha, T* dx) {
  with_gate(gate, [&]<Gate gt>() {
    for (std::int64_t n = 0; n < s.n; ++n)
      for (std::int64_t k = 0; k < s.blocks; ++k) {
        const V m = load(mean + k * B);
        const V vp = load(p + k * B), vq = load(q + k * B), vr = load(r + k * B);
        for (std::int64_t i = 0; i < s.pixels; ++i, x += B, dy += B, dx += B) {
          V g = load(dy);
          if constexpr (gt != Gate::kNone) {
            g = through<gt>(g, load(y), alpha);
            y += B;
          }
          store(dx, vp * g + (vq * (load(x) - m) + vr));
        }
      }
  });
}
