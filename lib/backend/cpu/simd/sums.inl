// Sums over flat buffers.

void sum(float* out, const float* const* sources, int count, std::int64_t elements,
         bool accumulate) {
  for (std::int64_t i = 0; i < elements; ++i) {
    float total = sources[0][i];
    for (int k = 1; k < count; ++k) total += sources[k][i];
    out[i] = accumulate ? out[i] + total : total;
  }
}

double sum_of_squares(const float* x, std::int64_t elements) {
  double total = 0;
  for (std::int64_t i = 0; i < elements; ++i) {
    total += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  }
  return total;
}

double sum_of_absolutes(const float* x, std::int64_t elements) {
  double total = 0;
  for (std::int64_t i = 0; i < elements; ++i) total += static_cast<double>(__builtin_fabsf(x[i]));
  return total;
}

inline float sign(float x) { return x > 0 ? 1.0f : x < 0 ? -1.0f : 0.0f; }

double gradient_square(const float* g, const float* w, float l2, float l1, std::int64_t elements) {
  double total = 0;
  for (std::int64_t i = 0; i < elements; ++i) {
    const float v = g[i] + 2 * l2 * w[i] + l1 * sign(w[i]);
    total += static_cast<double>(v) * static_cast<double>(v);
  }
  return total;
}
