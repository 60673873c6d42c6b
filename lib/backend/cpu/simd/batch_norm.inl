// Batch normalisation over blocked planes. Sums run in float over one run of pixels, again over the
// runs of one plane, and in double over planes: one sum over 112x112 pixels would lose two digits,
// which the masks of relu6 further up turn into wrong gradients.

// Adds to two sums over the pixels of a plane: add(i, a, b) adds those of pixel i to the sums of
// its run.
template <class Add>
inline void add_runs(std::int64_t pixels, V& a, V& b, const Add& add) {
  constexpr std::int64_t kRun = 64;
  for (std::int64_t i = 0; i < pixels;) {
    V run_a{}, run_b{};
    for (const std::int64_t end = least(pixels, i + kRun); i < end; ++i) add(i, run_a, run_b);
    a += run_a;
    b += run_b;
  }
}

inline void add_to(Moments* moments, V sum, V square) {
  for (std::int64_t c = 0; c < B; ++c) {
    moments[c].sum += static_cast<double>(sum[c]);
    moments[c].square += static_cast<double>(square[c]);
  }
}

// Adds the moments of pixels about `origin`.
template <class T>
inline void add_moments(const T* x, std::int64_t pixels, V origin, V& sum, V& square) {
  add_runs(pixels, sum, square, [&](std::int64_t i, V& run_sum, V& run_square) {
    const V d = load(x + i * B) - origin;
    run_sum += d;
    run_square += d * d;
  });
}

template <class T>
void moments(const PlaneShape& s, const T* x, const float* shift, Moments* out) {
  for (std::int64_t n = 0; n < s.n; ++n) {
    for (std::int64_t b = 0; b < s.blocks; ++b, x += s.pixels * B) {
      V sum{}, square{};
      add_moments(x, s.pixels, load(shift + b * B), sum, square);
      add_to(out + b * B, sum, square);
    }
  }
}

// The rows of one block of channels.
template <FusedActivation activation>
struct BlockNorm {
  V mean, a, b;
  float alpha;
  BlockNorm(const NormCoefficients& rows, std::int64_t block)
      : mean(load(rows.mean + block * B)),
        a(load(rows.a + block * B)),
        b(load(rows.b + block * B)),
        alpha(rows.alpha) {}
  V operator()(V x) const { return activate<activation>((x - mean) * a + b, alpha); }
};

// Returns v rounded to T.
template <class T>
inline V rounded(V v) {
  if constexpr (sizeof(T) == sizeof(float)) return v;
  T values[B];
  store(values, v);
  return load(values);
}

template <class T>
void scale_shift(const PlaneShape& s, const T* x, const NormCoefficients& rows, T* y) {
  with_activation(rows.activation, [&]<FusedActivation activation>() {
    for (std::int64_t n = 0; n < s.n; ++n)
      for (std::int64_t k = 0; k < s.blocks; ++k) {
        const BlockNorm<activation> norm(rows, k);
        for (std::int64_t i = 0; i < s.pixels; ++i, x += B, y += B) store(y, norm(load(x)));
      }
  });
}

// Adds term(value of `other`, norm of the block) to the normalised x.
template <class T, class Term>
inline void add_terms(const PlaneShape& s, const T* x, const NormCoefficients& rows, const T* other,
                      const NormCoefficients& other_rows, T* y, const Term& term) {
  with_activation(rows.activation, [&]<FusedActivation activation>() {
    for (std::int64_t n = 0; n < s.n; ++n)
      for (std::int64_t k = 0; k < s.blocks; ++k) {
        const BlockNorm<FusedActivation::kNone> norm(rows, k), other_norm(other_rows, k);
        for (std::int64_t i = 0; i < s.pixels; ++i, x += B, other += B, y += B) {
          const V sum = rounded<T>(norm(load(x))) + term(load(other), other_norm);
          store(y, activate<activation>(rounded<T>(sum), rows.alpha));
        }
      }
  });
}

template <class T>
void add_to_norm(const PlaneShape& s, const T* x, const NormCoefficients& rows, const T* other,
                 T* y) {
  add_terms(s, x, rows, other, rows, y,
            [](V value, const BlockNorm<FusedActivation::kNone>&) { return value; });
}

template <class T>
void add_two_norms(const PlaneShape& s, const T* x, const NormCoefficients& rows, const T* other,
                   const NormCoefficients& other_rows, T* y) {
  add_terms(s, x, rows, other, other_rows, y,
            [](V value, const BlockNorm<FusedActivation::kNone>& norm) {
              return rounded<T>(norm(value));
            });
}

// Calls f<activation, true> if `values` is not null, else f<activation, false>.
template <class T, class F>
inline void with_activation_and_optional(FusedActivation activation, const T* values, F&& f) {
  with_activation(activation, [&]<FusedActivation g>() {
    if (values != nullptr) return f.template operator()<g, true>();
    return f.template operator()<g, false>();
  });
}

template <FusedActivation activation, bool given, class T>
inline V before_activation(const BlockNorm<activation>& norm, V dy, V x, const T* y,
                           std::int64_t at) {
  if constexpr (activation == FusedActivation::kNone) return dy;
  if constexpr (given) return through<activation>(dy, load(y + at), norm.alpha);
  return through<activation>(dy, rounded<T>(norm(x)), norm.alpha);
}

inline void add_to(GradientSums* sums, V sum, V product) {
  for (std::int64_t c = 0; c < B; ++c) {
    sums[c].sum_g += static_cast<double>(sum[c]);
    sums[c].sum_g_xhat += static_cast<double>(product[c]);
  }
}

template <class T>
void norm_sums(const PlaneShape& s, const T* x, const T* dy, const T* y,
               const NormCoefficients& rows, const float* inverse_std, GradientSums* sums) {
  with_activation_and_optional(rows.activation, y, [&]<FusedActivation activation, bool given>() {
    std::int64_t at = 0;
    for (std::int64_t n = 0; n < s.n; ++n)
      for (std::int64_t k = 0; k < s.blocks; ++k) {
        const BlockNorm<activation> norm(rows, k);
        const V is = load(inverse_std + k * B);
        V sum{}, product{};
        add_runs(s.pixels, sum, product, [&](std::int64_t, V& run_sum, V& run_product) {
          const V value = load(x + at);
          const V g = before_activation<activation, given>(norm, load(dy + at), value, y, at);
          run_sum += g;
          run_product += g * ((value - norm.mean) * is);
          at += B;
        });
        add_to(sums + k * B, sum, product);
      }
  });
}

template <FusedActivation activation, bool sum, class T>
inline V gradient_before(const ActivationGradient<T>& from, std::int64_t at) {
  V dy = load(from.a + at);
  if constexpr (sum) dy = rounded<T>(dy + load(from.b + at));
  return rounded<T>(through<activation>(dy, load(from.w + at), from.alpha));
}

template <class T>
void activation_gradient(const PlaneShape& s, const ActivationGradient<T>& from, T* d) {
  with_activation_and_optional(from.activation, from.b,
                               [&]<FusedActivation activation, bool sum>() {
                                 const std::int64_t end = s.n * s.blocks * s.pixels * B;
                                 for (std::int64_t at = 0; at < end; at += B)
                                   store(d + at, gradient_before<activation, sum>(from, at));
                               });
}

template <class T>
void activation_gradient_sums(const PlaneShape& s, const ActivationGradient<T>& from, T* d,
                              const T* x, const float* mean, const float* inverse_std,
                              GradientSums* sums) {
  with_activation_and_optional(
      from.activation, from.b, [&]<FusedActivation activation, bool sum_of_two>() {
        std::int64_t at = 0;
        for (std::int64_t n = 0; n < s.n; ++n)
          for (std::int64_t k = 0; k < s.blocks; ++k) {
            const V centre = load(mean + k * B), is = load(inverse_std + k * B);
            V sum{}, product{};
            add_runs(s.pixels, sum, product, [&](std::int64_t, V& run_sum, V& run_product) {
              const V g = gradient_before<activation, sum_of_two>(from, at);
              store(d + at, g);
              run_sum += g;
              run_product += g * ((load(x + at) - centre) * is);
              at += B;
            });
            add_to(sums + k * B, sum, product);
          }
      });
}

template <class T>
void norm_backward(const PlaneShape& s, const T* x, const T* dy, const T* y,
                   const NormCoefficients& rows, const NormGradientCoefficients& gradient, T* dx) {
  with_activation_and_optional(rows.activation, y, [&]<FusedActivation activation, bool given>() {
    std::int64_t at = 0;
    for (std::int64_t n = 0; n < s.n; ++n)
      for (std::int64_t k = 0; k < s.blocks; ++k) {
        const BlockNorm<activation> norm(rows, k);
        const V p = load(gradient.p + k * B), q = load(gradient.q + k * B);
        const V r = load(gradient.r + k * B);
        for (std::int64_t i = 0; i < s.pixels; ++i, at += B) {
          const V value = load(x + at);
          const V g = before_activation<activation, given>(norm, load(dy + at), value, y, at);
          store(dx + at, p * g + (q * (value - norm.mean) + r));
        }
      }
  });
}
