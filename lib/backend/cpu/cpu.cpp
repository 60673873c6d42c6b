#include <sched.h>

#include <algorithm>

#include "backend/backend.h"
#include "backend/cpu/dnnl.h"
#include "backend/cpu/executable.h"
#include "base/cores.h"

namespace trainer::backend {
namespace cpu {
namespace {

// More lanes than this have never been of use, and the update sums at most so many gradients.
constexpr int kMostLanes = 64;

Machine inspect(const std::string& instruction_set, int threads_per_lane) {
  Machine machine;
  machine.threads = threads_per_lane;
  const bool amx = instruction_set == "amx";
  if (amx || instruction_set.empty()) machine.amx = simd::amx_kernels();
  if (!amx || machine.amx != nullptr) {
    machine.kernels = amx || instruction_set.empty() ? simd::best_kernels()
                                                     : simd::kernels_named(instruction_set.c_str());
  }
  if (machine.kernels == nullptr) {
    if (!instruction_set.empty()) {
      throw DeviceError(concat("this processor has no ", instruction_set, " kernels"));
    }
    throw DeviceError("this processor lacks AVX2 and FMA (x86-64-v3), which the CPU backend needs");
  }
  machine.block = machine.kernels->block;
  machine.bf16 = __builtin_cpu_supports("avx512bf16") && machine.block == 16;
  machine.isa = machine.kernels->name;
  return machine;
}

class CpuBackend : public Backend {
 public:
  CpuBackend(int threads, int lanes, const CpuOptions& options)
      : machine_(inspect(options.instruction_set, threads / lanes)),
        lanes_(lanes, threads / lanes, options.cores),
        arenas_(lanes) {}

  std::string describe() const override {
    const dnnl_version_t* version = dnnl_version();
    return concat("cpu, ", lanes_.count(), lanes_.count() == 1 ? " lane" : " lanes", " x ",
                  lanes_.threads_per_lane(),
                  lanes_.threads_per_lane() == 1 ? " thread" : " threads", ", ", machine_.isa,
                  machine_.amx != nullptr ? " with bf16 on AMX"
                  : machine_.bf16         ? " with bf16"
                                          : "",
                  ", oneDNN ", version->major, ".", version->minor, ".", version->patch);
  }

  compile::Capabilities capabilities() const override {
    compile::Capabilities capabilities;
    capabilities.fuse_conv_max_pool = true;
    return capabilities;
  }

  bool supports(DType activations) const override {
    return activations == DType::kFloat32 || (activations == DType::kBFloat16 && machine_.bf16);
  }

  std::unique_ptr<Variables> allocate(const graph::Graph& graph) override {
    return std::make_unique<CpuVariables>(graph);
  }

  std::unique_ptr<Executable> compile(const graph::Graph& graph, Variables& variables,
                                      const CompileOptions& options) override {
    return std::make_unique<CpuExecutable>(graph, dynamic_cast<CpuVariables&>(variables), lanes_,
                                           arenas_, machine_, options);
  }

 private:
  Machine machine_;
  Lanes lanes_;
  Arenas arenas_;
};

}  // namespace
}  // namespace cpu

std::unique_ptr<Backend> open_cpu_backend(const CpuOptions& options) {
  const int threads =
      options.threads > 0 ? options.threads : static_cast<int>(available_cores().size());
  const int lanes = std::min(options.lanes > 0 ? options.lanes : threads, cpu::kMostLanes);
  return std::make_unique<cpu::CpuBackend>(std::max(threads, lanes), lanes, options);
}

}  // namespace trainer::backend
