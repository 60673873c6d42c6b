// Numbers too small for a normal float (below 1.2e-38) count as zero.
#pragma once

#include <immintrin.h>

namespace trainer {

// For this thread and those that it starts from now on. The moments of parameters whose gradient
// has become zero decay into such numbers, with which a processor computes up to a hundred times
// slower. TensorFlow does the same. Called first in main(), so that all threads agree: sums must
// not depend on who adds.
inline void flush_denormals() {
  _MM_SET_FLUSH_ZERO_MODE(_MM_FLUSH_ZERO_ON);
  _mm_setcsr(_mm_getcsr() | 0x0040);  // denormals are zeros
}

}  // namespace trainer
