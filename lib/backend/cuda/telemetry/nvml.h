// NVML, the library of the NVIDIA driver that reports the load of a GPU. It is looked up when a GPU
// trains: the CUDA Toolkit may lack nvml.h, and a container may lack the library.
//
// Declarations follow the NVML API Reference Guide: "Device Queries" (the functions), "Device
// Structs" (nvmlUtilization_t, nvmlMemory_t), "Device Enums" (nvmlReturn_t, nvmlClockType_t,
// nvmlTemperatureSensors_t, nvmlMemoryErrorType_t, nvmlEccCounterType_t). NVML keeps these versions
// of its functions for old programs.
#pragma once

namespace trainer::backend::cuda::nvml {

// nvmlReturn_t.
enum Return : int {
  kSuccess = 0,
  kUninitialized = 1,
  kInvalidArgument = 2,
  kNotSupported = 3,
  kNoPermission = 4,
  kNotFound = 6,
  kDriverNotLoaded = 9,
  kTimeout = 10,
  kFunctionNotFound = 13,
  kGpuIsLost = 15,
  kResetRequired = 16,
  kLibraryMismatch = 18,
  kUnknown = 999,
};
// nvmlClockType_t, nvmlTemperatureSensors_t.
inline constexpr int kClockSm = 1, kClockMemory = 2;
inline constexpr int kTemperatureGpu = 0;
// nvmlMemoryErrorType_t, nvmlEccCounterType_t.
inline constexpr int kUncorrected = 1;
inline constexpr int kSinceLoad = 0;

using Device = struct DeviceHandle*;
struct Utilization {  // percent
  unsigned gpu = 0, memory = 0;
};
struct Memory {  // bytes
  unsigned long long total = 0, free = 0, used = 0;
};

// Null: the library does not have the function. The first four are never null.
struct Api {
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  const char* (*error_string)(int) = nullptr;
  int (*handle_by_uuid)(const char* uuid, Device*) = nullptr;
  int (*utilization)(Device, Utilization*) = nullptr;
  int (*memory)(Device, Memory*) = nullptr;
  int (*power)(Device, unsigned* milliwatts) = nullptr;
  int (*temperature)(Device, int sensor, unsigned* celsius) = nullptr;
  int (*clock)(Device, int type, unsigned* megahertz) = nullptr;
  int (*energy)(Device, unsigned long long* millijoules) = nullptr;
  int (*ecc_errors)(Device, int type, int counter, unsigned long long* errors) = nullptr;
  int (*remapped_rows)(Device, unsigned* corrected, unsigned* uncorrected, unsigned* is_pending,
                       unsigned* has_failed) = nullptr;
};

// Returns the initialised library, the same table at every call. Thread-safe, as NVML's functions
// are. Throws DeviceError that names what is missing.
const Api& api();

}  // namespace trainer::backend::cuda::nvml
