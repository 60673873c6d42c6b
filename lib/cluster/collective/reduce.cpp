#include "cluster/collective/reduce.h"

namespace trainer::cluster {
namespace {

// One loop, compiled three times. Wrap-around of integers is what a sum of counts would do anyway.
#define TRAINER_ADD_LOOP \
  for (std::size_t i = 0; i < count; ++i) sum[i] = a[i] + b[i];

template <class T>
__attribute__((target("avx512f"))) void add_avx512(T* sum, const T* a, const T* b,
                                                   std::size_t count) {
  TRAINER_ADD_LOOP
}
template <class T>
__attribute__((target("avx2"))) void add_avx2(T* sum, const T* a, const T* b, std::size_t count) {
  TRAINER_ADD_LOOP
}
template <class T>
void add_plain(T* sum, const T* a, const T* b, std::size_t count) {
  TRAINER_ADD_LOOP
}
#undef TRAINER_ADD_LOOP

template <class T>
void dispatch(T* sum, const T* a, const T* b, std::size_t count) {
  static const auto function = __builtin_cpu_supports("avx512f") ? add_avx512<T>
                               : __builtin_cpu_supports("avx2")  ? add_avx2<T>
                                                                 : add_plain<T>;
  function(sum, a, b, count);
}

}  // namespace

void add(float* sum, const float* a, const float* b, std::size_t count) {
  dispatch(sum, a, b, count);
}
void add(double* sum, const double* a, const double* b, std::size_t count) {
  dispatch(sum, a, b, count);
}
void add(std::int64_t* sum, const std::int64_t* a, const std::int64_t* b, std::size_t count) {
  dispatch(sum, a, b, count);
}

}  // namespace trainer::cluster
