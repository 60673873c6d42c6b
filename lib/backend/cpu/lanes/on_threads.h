// Calls a function on each thread of a lane.
#pragma once

#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#endif

namespace trainer::backend::cpu {

// They declare OpenMP's order to ThreadSanitizer, which does not see the runtime of OpenMP.
inline void tsan_release([[maybe_unused]] void* point) {
#ifdef __SANITIZE_THREAD__
  __tsan_release(point);
#endif
}
inline void tsan_acquire([[maybe_unused]] void* point) {
#ifdef __SANITIZE_THREAD__
  __tsan_acquire(point);
#endif
}

// Calls f(0) to f(count - 1), each on a thread of its own, and returns when all have ended. It
// uses the threads of OpenMP, as oneDNN's primitives do: other threads would wait while OpenMP's
// threads still spin. f must not throw.
template <class F>
__attribute__((no_sanitize("thread"))) void on_threads(int count, const F& f) {
  char begin = 0, end = 0;
  tsan_release(&begin);
#pragma omp parallel for num_threads(count)
  for (int i = 0; i < count; ++i) {
    tsan_acquire(&begin);
    f(i);
    tsan_release(&end);
  }
  tsan_acquire(&end);
}

}  // namespace trainer::backend::cpu
