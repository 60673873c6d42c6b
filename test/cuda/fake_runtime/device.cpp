// Devices: as many as the environment sets, with the properties of an H100 that matter to programs.
//
// Follows CUDA Runtime API 13.0, "Device Management" (cudaGetDeviceCount: cudaErrorNoDevice without
// one; cudaSetDevice: of the calling thread, 0 at first) and "Version Management"; the numbers are
// those of compute capability 9.0 in the CUDA Programming Guide, "Compute Capabilities".
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <tuple>

#include "cuda/fake_runtime/world.h"

namespace fake {
namespace {

bool is_device(const World& w, int device) { return device >= 0 && device < w.settings.devices; }

cudaDeviceProp make_properties(const World& w, int device) {
  cudaDeviceProp p{};
  const std::string name = "Fake CUDA device " + std::to_string(device);
  std::copy(name.begin(), name.end(), p.name);
  p.uuid.bytes[0] = static_cast<char>(0xFA);
  p.uuid.bytes[15] = static_cast<char>(device);
  p.totalGlobalMem = w.settings.memory_bytes;
  p.sharedMemPerBlock = 48 << 10;
  p.sharedMemPerBlockOptin = 227 << 10;
  p.sharedMemPerMultiprocessor = 228 << 10;
  p.reservedSharedMemPerBlock = 1 << 10;
  p.regsPerBlock = p.regsPerMultiprocessor = 64 << 10;
  p.warpSize = 32;
  p.maxThreadsPerBlock = 1024;
  p.maxThreadsPerMultiProcessor = 2048;
  p.maxBlocksPerMultiProcessor = 32;
  p.maxThreadsDim[0] = p.maxThreadsDim[1] = 1024;
  p.maxThreadsDim[2] = 64;
  p.maxGridSize[0] = 0x7fffffff;
  p.maxGridSize[1] = p.maxGridSize[2] = 65535;
  p.totalConstMem = 64 << 10;
  std::tie(p.major, p.minor) = w.settings.capabilities[static_cast<std::size_t>(device)];
  p.multiProcessorCount = 132;
  p.l2CacheSize = 50 << 20;
  p.memoryBusWidth = 5120;
  p.asyncEngineCount = 3;
  p.concurrentKernels = p.canMapHostMemory = p.unifiedAddressing = 1;
  p.streamPrioritiesSupported = p.cooperativeLaunch = p.ECCEnabled = 1;
  p.pciBusID = device + 1;
  return p;
}

cudaError_t attribute(const World& w, int* value, cudaDeviceAttr which, int device) {
  const cudaDeviceProp p = make_properties(w, device);
  switch (which) {
    case cudaDevAttrMaxThreadsPerBlock:
      *value = p.maxThreadsPerBlock;
      return cudaSuccess;
    case cudaDevAttrMaxGridDimX:
      *value = p.maxGridSize[0];
      return cudaSuccess;
    case cudaDevAttrMaxGridDimY:
      *value = p.maxGridSize[1];
      return cudaSuccess;
    case cudaDevAttrMaxGridDimZ:
      *value = p.maxGridSize[2];
      return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlock:
      *value = static_cast<int>(p.sharedMemPerBlock);
      return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = static_cast<int>(p.sharedMemPerBlockOptin);
      return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      *value = static_cast<int>(p.sharedMemPerMultiprocessor);
      return cudaSuccess;
    case cudaDevAttrWarpSize:
      *value = p.warpSize;
      return cudaSuccess;
    case cudaDevAttrMultiProcessorCount:
      *value = p.multiProcessorCount;
      return cudaSuccess;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      *value = p.maxThreadsPerMultiProcessor;
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMajor:
      *value = p.major;
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor:
      *value = p.minor;
      return cudaSuccess;
    case cudaDevAttrClockRate:
      *value = 1'980'000;
      return cudaSuccess;  // kHz
    case cudaDevAttrMemoryClockRate:
      *value = 2'619'000;
      return cudaSuccess;
    case cudaDevAttrGlobalMemoryBusWidth:
      *value = p.memoryBusWidth;
      return cudaSuccess;
    case cudaDevAttrL2CacheSize:
      *value = p.l2CacheSize;
      return cudaSuccess;
    case cudaDevAttrUnifiedAddressing:
      *value = p.unifiedAddressing;
      return cudaSuccess;
    case cudaDevAttrPciBusId:
      *value = p.pciBusID;
      return cudaSuccess;
    case cudaDevAttrPciDeviceId:
      *value = p.pciDeviceID;
      return cudaSuccess;
    case cudaDevAttrPciDomainId:
      *value = p.pciDomainID;
      return cudaSuccess;
    case cudaDevAttrCooperativeLaunch:
      *value = p.cooperativeLaunch;
      return cudaSuccess;
    case cudaDevAttrAsyncEngineCount:
      *value = p.asyncEngineCount;
      return cudaSuccess;
    default:
      print("cudaDeviceGetAttribute of attribute " + std::to_string(which) +
            " is not in device.cpp of the fake; add it");
      return cudaErrorInvalidValue;
  }
}

}  // namespace
}  // namespace fake

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  fake::World& w = fake::world();
  const fake::Lock lock(w.mutex);
  const int injected = fake::injected_failure(w, "cudaGetDeviceCount");
  if (count) *count = injected ? 0 : w.settings.devices;
  if (injected) return fake::end(static_cast<cudaError_t>(injected));
  if (!count) return fake::end(cudaErrorInvalidValue);
  return fake::end(w.settings.devices == 0 ? cudaErrorNoDevice : cudaSuccess);
}

cudaError_t cudaSetDevice(int device) {
  fake::World& w = fake::world();
  const fake::Lock lock(w.mutex);
  if (const int e = fake::injected_failure(w, "cudaSetDevice")) {
    return fake::end(static_cast<cudaError_t>(e));
  }
  if (!fake::is_device(w, device)) return fake::end(cudaErrorInvalidDevice);
  fake::current_device() = device;
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* device) {
  fake::World& w = fake::world();
  const fake::Lock lock(w.mutex);
  if (const int e = fake::injected_failure(w, "cudaGetDevice")) {
    return fake::end(static_cast<cudaError_t>(e));
  }
  if (!device) return fake::end(cudaErrorInvalidValue);
  *device = fake::current_device();
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  fake::World& w = fake::world();
  const fake::Lock lock(w.mutex);
  if (const cudaError_t e = fake::begin(w, "cudaGetDeviceProperties")) return fake::end(e);
  if (!properties) return fake::end(cudaErrorInvalidValue);
  if (!fake::is_device(w, device)) return fake::end(cudaErrorInvalidDevice);
  *properties = fake::make_properties(w, device);
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr which, int device) {
  fake::World& w = fake::world();
  const fake::Lock lock(w.mutex);
  if (const cudaError_t e = fake::begin(w, "cudaDeviceGetAttribute")) return fake::end(e);
  if (!value) return fake::end(cudaErrorInvalidValue);
  if (!fake::is_device(w, device)) return fake::end(cudaErrorInvalidDevice);
  return fake::end(fake::attribute(w, value, which, device));
}

cudaError_t cudaDriverGetVersion(int* version) {
  fake::World& w = fake::world();
  const fake::Lock lock(w.mutex);
  if (const int e = fake::injected_failure(w, "cudaDriverGetVersion")) {
    return fake::end(static_cast<cudaError_t>(e));
  }
  if (!version) return fake::end(cudaErrorInvalidValue);
  const char* given = std::getenv("TRAINER_FAKE_CUDA_DRIVER");
  *version = given != nullptr ? std::atoi(given) : CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  if (!version) return fake::end(cudaErrorInvalidValue);
  *version = CUDART_VERSION;
  return cudaSuccess;
}

}  // extern "C"
