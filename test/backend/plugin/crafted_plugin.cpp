// A plugin of the program without CUDA. The environment variable CRAFTED has what it finds:
// "status driver gpus capabilities", such as "35 11040 0" or "0 13020 2 90 75"; without
// capabilities GPU i has 9.i. CRAFTED_ARCHITECTURES has what its kernels are built for. Its GPUs
// hold nothing but their names.
//
// Built in three ways: CRAFTED_INTERFACE is another version of the interface,
// CRAFTED_WITHOUT_OPEN leaves an entry point out.
#include <cstdlib>
#include <sstream>

#include "backend/cuda/plugin.h"
#include "base/error.h"

#ifndef CRAFTED_INTERFACE
#define CRAFTED_INTERFACE trainer::backend::cuda::kPluginInterface
#endif
#ifdef CRAFTED_NEEDS
int crafted_needed();  // of another library
#endif

namespace trainer::backend {
namespace {

class CraftedBackend final : public Backend {
 public:
  explicit CraftedBackend(int gpu) : gpu_(gpu) {}
  std::string describe() const override { return concat("crafted GPU ", gpu_); }
  bool supports(DType) const override { return true; }
  bool prefers_bfloat16() const override { return true; }
  Buffer allocate(std::size_t) override { fail(); }
  HostBuffer allocate_host(std::size_t) override { fail(); }
  bool reads_host_memory() const override { return false; }
  std::unique_ptr<Stream> make_stream() override { fail(); }
  std::unique_ptr<Event> make_event() override { fail(); }
  int launches_in_flight() const override { return 1; }
  std::unique_ptr<Variables> allocate(const graph::Graph&) override { fail(); }
  std::unique_ptr<Executable> compile(const graph::Graph&, Variables&,
                                      const CompileOptions&) override {
    fail();
  }
  std::unique_ptr<Collective> make_collective(cluster::Communicator&) override { fail(); }

 private:
  [[noreturn]] void fail() const { throw DeviceError(concat("crafted GPU ", gpu_, " is full")); }

  int gpu_;
};

cuda::GpuSurvey survey_of_environment() {
  cuda::GpuSurvey survey;
  const char* text = std::getenv("CRAFTED");
  std::istringstream words(text == nullptr ? "0 13000 0" : text);
  int gpus = 0;
  words >> survey.status >> survey.driver_version >> gpus;
  survey.runtime_version = 13020;
  survey.status_text = concat("cudaErrorCrafted: error ", survey.status);
  const char* architectures = std::getenv("CRAFTED_ARCHITECTURES");
  survey.architectures = architectures == nullptr ? "80-real,90-real,100" : architectures;
  for (int i = 0; i < gpus; ++i) {
    int capability = 0;
    if (!(words >> capability)) capability = 90 + i;
    survey.gpus.push_back(
        {concat("Crafted ", i), capability / 10, capability % 10, std::int64_t{80} << 30, 132, i});
  }
  return survey;
}

}  // namespace
}  // namespace trainer::backend

int trainer_cuda_interface() {
#ifdef CRAFTED_NEEDS
  return crafted_needed();
#else
  return CRAFTED_INTERFACE;
#endif
}

void trainer_cuda_list(trainer::backend::cuda::GpuSurvey& survey) {
  survey = trainer::backend::survey_of_environment();
  if (survey.status == -1) throw trainer::DeviceError("crafted GPU 0 does not answer");
}

void trainer_cuda_libraries(bool, trainer::backend::GpuLibraries& libraries) {
  libraries.versions = "crafted libraries";
}

#ifndef CRAFTED_WITHOUT_OPEN
void trainer_cuda_open(const trainer::backend::DeviceOptions& options,
                       std::vector<std::unique_ptr<trainer::backend::Backend>>& backends) {
  for (const int gpu : options.gpus) {
    if (gpu == 3) throw trainer::DeviceError("crafted GPU 3 is lost");
    backends.push_back(std::make_unique<trainer::backend::CraftedBackend>(gpu));
  }
}
#endif
