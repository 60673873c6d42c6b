#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "backend/cpu/simd/ops/update.inl"

namespace trainer::backend::cpu {

// With equal gradients and rho 0.5 both averages become exactly 1, so that their difference is 0
// and epsilon alone is left. 1 + epsilon rounds to 1 in float, so that adding epsilon first would
// lose it.
TEST_CASE("rms_prop kernels: epsilon is added to the difference of centered and equal gradients") {
  int tested = 0;
  for (const char* name : {"x86-64-v3", "x86-64-v4"}) {
    const simd::Kernels* level = simd::kernels_named(name);
    if (level == nullptr) continue;
    ++tested;
    const auto& kernels = simd::find_kernels<simd::UpdateKernels>(*level);
    for (const float momentum : {0.0f, 0.5f}) {
      CAPTURE(name);
      CAPTURE(momentum);
      constexpr std::int64_t kCount = 19;
      std::vector<float> gradient(kCount, 1), w(kCount), slots[3];
      for (std::vector<float>& slot : slots) slot.assign(kCount, 0);
      const float* const gradients[] = {gradient.data()};
      simd::UpdateRun run;
      run.count = kCount;
      run.w = w.data();
      run.gradients = gradients;
      run.gradient_count = 1;
      for (std::size_t i = 0; i < 3; ++i) run.slot[i] = slots[i].data();
      run.learning_rate = 1e-4f;
      for (int step = 0; step < 100; ++step) {
        kernels.rms_prop(run, 0.5f, momentum, 1e-8f, true);
      }
      const std::vector<float> before = w;
      kernels.rms_prop(run, 0.5f, momentum, 1e-8f, true);
      // The change is learning_rate / sqrt(epsilon) = 1, times the sum of the powers of momentum.
      const float expected = 1 / (1 - momentum);
      for (std::size_t i = 0; i < kCount; ++i) {
        CHECK(before[i] - w[i] == doctest::Approx(expected).epsilon(1e-4));
      }
    }
  }
  CHECK(tested > 0);
}

}  // namespace trainer::backend::cpu
