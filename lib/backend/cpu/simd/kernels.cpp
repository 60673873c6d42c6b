#include "backend/cpu/simd/kernels.h"

#include <cstring>

namespace trainer::backend::cpu::simd {
namespace {

bool runs_v3() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("bmi2");
}

bool runs_v4() {
  return runs_v3() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512cd");
}

}  // namespace

const Kernels* best_kernels() {
  if (runs_v4()) return &v4::kTable;
  return runs_v3() ? &v3::kTable : nullptr;
}

const Kernels* kernels_named(const char* name) {
  if (std::strcmp(name, v4::kTable.name) == 0 && runs_v4()) return &v4::kTable;
  if (std::strcmp(name, v3::kTable.name) == 0 && runs_v3()) return &v3::kTable;
  return nullptr;
}

}  // namespace trainer::backend::cpu::simd
