// Makes the processor treat numbers too small for a normal float (below 1.2e-38) as zero.
#pragma once

#include <immintrin.h>

namespace trainer {

// Applies to this thread and to those that it starts from now on. The moments of parameters whose
// gradient has become zero decay into such numbers, with which a processor computes up to a hundred
// times slower. TensorFlow does the same. main() calls it first, so that all threads compute alike:
// a sum must not depend on the thread that adds.
inline void flush_denormals() {
  _MM_SET_FLUSH_ZERO_MODE(_MM_FLUSH_ZERO_ON);
  _mm_setcsr(_mm_getcsr() | 0x0040);  // denormals are zeros
}

}  // namespace trainer
