// The kernels for x86-64-v4.
#include <immintrin.h>

#include <utility>

#define TRAINER_BLOCK 16
#define TRAINER_LEVEL v4
#define TRAINER_LEVEL_NAME "x86-64-v4"
#include "backend/cpu/simd/table.inl"
