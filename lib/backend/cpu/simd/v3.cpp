// The kernels for x86-64-v3.
#include <immintrin.h>

#include <utility>

#define TRAINER_BLOCK 8
#define TRAINER_LEVEL v3
#define TRAINER_LEVEL_NAME "x86-64-v3"
#include "backend/cpu/simd/table.inl"
