#include "commands/plan/roofline.h"

#include <doctest/doctest.h>

namespace trainer::commands {

TEST_CASE("roofline gives the times that were computed by hand") {
  using graph::Phase;
  const auto make_step = [](const char* layer, Phase phase, DType type, double flops,
                            const backend::InstructionWork& work) {
    return backend::InstructionInfo{layer, "", 0, phase, type, flops, work};
  };
  // A product that arithmetic limits, a pass that memory limits, and launches.
  const std::vector<backend::InstructionInfo> steps = {
      make_step("conv", Phase::kForward, DType::kBFloat16, 1e12, {0, 1, 0, 1e6}),
      make_step("norm", Phase::kForward, DType::kBFloat16, 1e6, {3, 0, 0, 3e9}),
      make_step("norm", Phase::kBackward, DType::kBFloat16, 0, {2, 0, 1, 1e3}),
      make_step("update", Phase::kUpdate, DType::kFloat32, 0, {4, 0, 2, 6e9})};
  const backend::GpuModel& h100 = *backend::find_gpu_model("h100");
  const Roofline all = roofline(steps, 64, false, h100);
  REQUIRE(all.layers.size() == 2);
  const Roofline::Layer &conv = all.layers[0], &norm = all.layers[1];
  CHECK(conv.forward.fast == doctest::Approx(1e12 / (989.4e12 * 0.708)));
  CHECK(conv.forward.slow == doctest::Approx(conv.forward.fast / 0.6));
  CHECK(conv.memory_bound == 0);
  CHECK(conv.kernels == 1);
  const double bandwidth = 3.352e12 * 0.9;
  CHECK(norm.forward.fast == doctest::Approx(3e9 / bandwidth));
  CHECK(norm.backward.fast == doctest::Approx(3 * 2e-6));
  CHECK(norm.kernels == 5);
  CHECK(norm.bytes == doctest::Approx(3e9 + 1e3));
  CHECK(all.update.fast == doctest::Approx(6e9 / bandwidth));
  CHECK(all.step.fast == doctest::Approx(conv.forward.fast + norm.forward.fast +
                                         norm.backward.fast + all.update.fast));
  CHECK(all.kernels() == 10);
  CHECK(all.work.library_calls == 1);
  CHECK(all.work.copies == 3);
  CHECK(all.work.bytes == doctest::Approx(9e9 + 1e6 + 1e3));
  // Without TF32 the tensor cores do not take float32.
  std::vector<backend::InstructionInfo> whole = steps;
  whole[0].type = DType::kFloat32;
  CHECK(roofline(whole, 64, false, h100).layers[0].forward.fast ==
        doctest::Approx(1e12 / (66.9e12 * 0.9)));
  CHECK(roofline(whole, 64, true, h100).layers[0].forward.fast ==
        doctest::Approx(1e12 / (494.7e12 * 0.708)));
}

}  // namespace trainer::commands
