#include "backend/cpu/simd/kernels.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>

#include "backend/cpu/simd/amx.h"

namespace trainer::backend::cpu::simd {
namespace amx {
extern const AmxKernels kTable;
}
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

const AmxKernels* amx_kernels() {
  // Linux gives a process the tiles' state when it asks for it (Documentation/arch/x86/xstate.rst).
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  static const bool allowed = runs_v4() && __builtin_cpu_supports("avx512bf16") &&
                              __builtin_cpu_supports("amx-tile") &&
                              __builtin_cpu_supports("amx-bf16") &&
                              syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
  return allowed ? &amx::kTable : nullptr;
}

}  // namespace trainer::backend::cpu::simd
