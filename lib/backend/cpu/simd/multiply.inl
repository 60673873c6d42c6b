// Products with a repeated factor, and their sums.

template <class T, class F>
inline void multiply_rows(const T* x, const F* factor, T* y, std::int64_t rows, std::int64_t width) {
  for (std::int64_t r = 0; r < rows; ++r, x += width, y += width)
    for (std::int64_t i = 0; i < width; ++i) put(y + i, get(x + i) * get(factor + i));
}

template <class T>
void multiply(const T* x, const T* factor, T* y, std::int64_t outer, std::int64_t rows, std::int64_t width) {
  for (std::int64_t o = 0; o < outer; ++o)
    multiply_rows(x + o * rows * width, factor + o * width, y + o * rows * width, rows, width);
}

template <class T>
void multiply_f32(const T* x, const float* factor, T* y, std::int64_t rows, std::int64_t width) {
  multiply_rows(x, factor, y, rows, width);
}

template <class T>
void add_bias(const T* x, const float* bias, T* y, std::int64_t rows, std::int64_t width) {
  for (std::int64_t r = 0; r < rows; ++r, x += width, y += width)
    for (std::int64_t i = 0; i < width; ++i) put(y + i, get(x + i) + bias[i]);
}

// Sums of few rows are added to sums of many, so that the error does not grow with the rows.
template <class T, class F>
inline void sum_rows(const T* a, const T* b, F* sum, float* scratch, std::int64_t rows, std::int64_t width) {
  constexpr std::int64_t kRows = 64;
  float* few = scratch;
  float* many = scratch + width;
  for (std::int64_t i = 0; i < width; ++i) many[i] = 0;
  for (std::int64_t first = 0; first < rows; first += kRows) {
    const std::int64_t last = least(first + kRows, rows);
    for (std::int64_t i = 0; i < width; ++i) few[i] = 0;
    for (std::int64_t r = first; r < last; ++r, a += width) {
      if (b == nullptr) {
        for (std::int64_t i = 0; i < width; ++i) few[i] += get(a + i);
      } else {
        for (std::int64_t i = 0; i < width; ++i) few[i] += get(a + i) * get(b + i);
        b += width;
      }
    }
    for (std::int64_t i = 0; i < width; ++i) many[i] += few[i];
  }
  for (std::int64_t i = 0; i < width; ++i) put(sum + i, many[i]);
}

template <class T>
void sum_product(const T* a, const T* b, T* sum, float* scratch, std::int64_t outer, std::int64_t rows,
                 std::int64_t width) {
  for (std::int64_t o = 0; o < outer; ++o)
    sum_rows(a + o * rows * width, b == nullptr ? b : b + o * rows * width, sum + o * width, scratch, rows, width);
}

template <class T>
void sum_product_f32(const T* a, const T* b, float* sum, float* scratch, std::int64_t rows, std::int64_t width) {
  sum_rows(a, b, sum, scratch, rows, width);
}
