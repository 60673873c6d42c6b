#include "backend/gpu_model.h"

#include <algorithm>

#include "base/error.h"

namespace trainer::backend {

// Device properties: openxla/xla,
// xla/backends/gpu/target_config/specs/{a100_sxm_80,h100_sxm,h200,b200}.txtpb. Rates and bandwidth:
// NVIDIA's data sheets "A100 Tensor Core GPU" (June 2021), "H100 Tensor Core GPU", "H200 Tensor
// Core GPU" and "DGX B200", without sparsity. The share of a large product: cuBLAS with bfloat16,
// 270 of the A100's, 700 of the H100's and 790 of the H200's TFLOP/s; there is no
// measurement of the B200, for which 0.75 is assumed.
const std::vector<GpuModel>& gpu_models() {
  static const std::vector<GpuModel> kModels{
      {.name = "a100",
       .gpu = {.name = "NVIDIA A100-SXM4-80GB",
               .major = 8,
               .minor = 0,
               .memory_bytes = 85100068864,
               .multiprocessors = 108},
       .shared_memory = 166912,
       .cache = 41943040,
       .clock_khz = 1410000,
       .memory_clock_khz = 1593000,
       .memory_bus = 5120,
       .half_rate = 312e12,
       .tf32_rate = 156e12,
       .float_rate = 19.5e12,
       .large_product = 0.865,
       .bandwidth = 2.039e12},
      {.name = "h100",
       .gpu = {.name = "NVIDIA H100 80GB HBM3",
               .major = 9,
               .minor = 0,
               .memory_bytes = 84942979072,
               .multiprocessors = 132},
       .shared_memory = 232448,
       .cache = 52428800,
       .clock_khz = 1980000,
       .memory_clock_khz = 2619000,
       .memory_bus = 5120,
       .half_rate = 989.4e12,
       .tf32_rate = 494.7e12,
       .float_rate = 66.9e12,
       .large_product = 0.708,
       .bandwidth = 3.352e12},
      {.name = "h200",
       .gpu = {.name = "NVIDIA H200",
               .major = 9,
               .minor = 0,
               .memory_bytes = 151397597184,
               .multiprocessors = 132},
       .shared_memory = 232448,
       .cache = 62914560,
       .clock_khz = 1980000,
       .memory_clock_khz = 3201000,
       .memory_bus = 6144,
       .half_rate = 989.4e12,
       .tf32_rate = 494.7e12,
       .float_rate = 66.9e12,
       .large_product = 0.798,
       .bandwidth = 4.8e12},
      {.name = "b200",
       .gpu = {.name = "NVIDIA B200",
               .major = 10,
               .minor = 0,
               .memory_bytes = 191514411008,
               .multiprocessors = 148},
       .shared_memory = 232448,
       .cache = 132644864,
       .clock_khz = 1965000,
       .memory_clock_khz = 3996000,
       .memory_bus = 8192,
       .half_rate = 2250e12,
       .tf32_rate = 1125e12,
       .float_rate = 75e12,
       .large_product = 0.75,
       .bandwidth = 8e12},
  };
  return kModels;
}

const GpuModel* find_gpu_model(const std::string& name) {
  const std::vector<GpuModel>& models = gpu_models();
  const auto found = std::ranges::find(models, name, &GpuModel::name);
  return found == models.end() ? nullptr : &*found;
}

std::string gpu_model_names() {
  std::string names;
  const std::vector<GpuModel>& models = gpu_models();
  for (std::size_t i = 0; i < models.size(); ++i) {
    names += concat(i == 0 ? "" : i + 1 == models.size() ? " or " : ", ", models[i].name);
  }
  return names;
}

// The fields are those that openxla/xla, xla/backends/gpu/target_config/cudnn_device_props.cc,
// writes; memoryBusWidth is needed from cuDNN 9.28 on.
std::string cudnn_properties(const GpuModel& m) {
  return concat(R"({"deviceVer":)", m.gpu.major * 100 + m.gpu.minor * 10,            //
                R"(,"multiProcessorCount":)", m.gpu.multiprocessors,                 //
                R"(,"warpSize":32,"maxSharedMemoryPerBlock":49152)",                 //
                R"(,"maxSharedMemoryPerBlockOptin":)", m.shared_memory,              //
                R"(,"reservedSharedMemoryPerBlock":1024,"maxRegistersPerSM":65536)"  //
                R"(,"maxCtasPerSM":32,"maxThreadsPerBlock":1024)"                    //
                R"(,"maxThreadsPerSM":2048,"regsPerBlock":65536,"totalGlobalMem":)",
                m.gpu.memory_bytes,                            //
                R"(,"smClockRateKHz":)", m.clock_khz,          //
                R"(,"l2CacheSize":)", m.cache,                 //
                R"(,"maxBlockSize":[1024,1024,64])",           //
                R"(,"memClockRateKHz":)", m.memory_clock_khz,  //
                R"(,"memoryBusWidth":)", m.memory_bus,         //
                R"(,"maxGridSize":[2147483647,65535,65535])"   //
                R"(,"supportCoopLaunch":1,"pciDeviceId":0)"    //
                R"(,"isTccDriver":0,"cudaDeviceId":0,"driverVer":13000)",
                R"(,"deviceName":")", m.gpu.name, R"("})");
}

}  // namespace trainer::backend
