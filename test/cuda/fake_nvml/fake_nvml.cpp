// A libnvidia-ml.so.1 whose GPUs do what the environment sets: found through LD_LIBRARY_PATH, so
// that the code that opens the real library is what is tested.
//
// Follows the NVML API Reference Guide, R580:
// - "Initialization and Cleanup": nvmlInit_v2 and nvmlShutdown count their calls; every other
//   function returns NVML_ERROR_UNINITIALIZED without one.
// - "Device Queries": nvmlDeviceGetHandleByUUID ("GPU-" and the UUID's digits; NVML_ERROR_NOT_FOUND
//   for no GPU of that UUID), nvmlDeviceGetUtilizationRates (percent),
//   nvmlDeviceGetMemoryInfo (bytes; free and used are the total), nvmlDeviceGetPowerUsage
//   (milliwatts), nvmlDeviceGetTemperature (Celsius, of NVML_TEMPERATURE_GPU alone),
//   nvmlDeviceGetClockInfo (MHz), nvmlDeviceGetTotalEnergyConsumption (millijoules since the driver
//   was loaded), nvmlDeviceGetTotalEccErrors (the errors of NVML_MEMORY_ERROR_TYPE_UNCORRECTED
//   since the driver was loaded, or in the life of the GPU), nvmlDeviceGetRemappedRows (rows
//   remapped after corrected and uncorrected errors, whether one waits for a reset, whether one
//   failed). A null pointer or a handle that is none is NVML_ERROR_INVALID_ARGUMENT; a query that a
//   device lacks is NVML_ERROR_NOT_SUPPORTED; NVML_ERROR_GPU_IS_LOST comes from every query of a
//   GPU that "has fallen off the bus".
// - All functions may be called from any thread.
//
// A GPU's time passes by its energy queries: each finds it one second older, with its power used up
// since. So results do not depend on when a program asks.
//
// Environment, read at the first nvmlInit_v2:
//   TRAINER_FAKE_NVML_DEVICES      GPUs; 2. GPU i has the UUID of the fake CUDA runtime's device i
//   TRAINER_FAKE_NVML_UTILIZATION  percent of each GPU: 90,40; 50 for those left out
//   TRAINER_FAKE_NVML_WATTS        watts of each GPU: 300,150; 200 for those left out
//   TRAINER_FAKE_NVML_ECC          uncorrected errors of each GPU since the driver was loaded: 0,3
//   TRAINER_FAKE_NVML_REMAPPED     remapped rows of each GPU, of which the last waits for a reset
//   TRAINER_FAKE_NVML_UNSUPPORTED  functions that no GPU supports, with commas
//   TRAINER_FAKE_NVML_LOST         GPU:n: the GPU is lost at its n-th query, counted from 1
//   TRAINER_FAKE_NVML_INIT         the number that nvmlInit_v2 returns
#include <array>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <sstream>
#include <string>
#include <vector>

namespace {

constexpr int kSuccess = 0, kUninitialized = 1, kInvalidArgument = 2, kNotSupported = 3,
              kNotFound = 6, kGpuIsLost = 15;

struct Gpu {
  int index = 0;
  unsigned utilization = 50;
  unsigned watts = 200;
  unsigned ecc_errors = 0, remapped_rows = 0;
  long queries = 0;
  long lost_at = 0;                            // 0: never
  unsigned long long millijoules = 7'000'000;  // used up before the program started
};

struct Library {
  std::mutex mutex;
  int initialised = 0;
  std::vector<Gpu> gpus;
  std::string unsupported;
};

Library& library() {
  static Library* const kLibrary = new Library;  // threads may outlive main()
  return *kLibrary;
}

std::string variable(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : value;
}

std::vector<unsigned> numbers(const char* name) {
  std::vector<unsigned> values;
  std::istringstream text(variable(name, ""));
  for (std::string one; std::getline(text, one, ',');) {
    values.push_back(static_cast<unsigned>(std::stoul(one)));
  }
  return values;
}

void read_environment(Library& all) {
  const std::vector<unsigned> utilization = numbers("TRAINER_FAKE_NVML_UTILIZATION");
  const std::vector<unsigned> watts = numbers("TRAINER_FAKE_NVML_WATTS");
  const std::vector<unsigned> errors = numbers("TRAINER_FAKE_NVML_ECC");
  const std::vector<unsigned> remapped = numbers("TRAINER_FAKE_NVML_REMAPPED");
  all.gpus.resize(std::stoul(variable("TRAINER_FAKE_NVML_DEVICES", "2")));
  for (std::size_t i = 0; i < all.gpus.size(); ++i) {
    all.gpus[i].index = static_cast<int>(i);
    if (i < utilization.size()) all.gpus[i].utilization = utilization[i];
    if (i < watts.size()) all.gpus[i].watts = watts[i];
    if (i < errors.size()) all.gpus[i].ecc_errors = errors[i];
    if (i < remapped.size()) all.gpus[i].remapped_rows = remapped[i];
  }
  all.unsupported = "," + variable("TRAINER_FAKE_NVML_UNSUPPORTED", "") + ",";
  const std::string lost = variable("TRAINER_FAKE_NVML_LOST", "");
  if (const std::size_t colon = lost.find(':'); colon != std::string::npos) {
    all.gpus.at(std::stoul(lost)).lost_at = std::stol(lost.substr(colon + 1));
  }
}

// What every query begins with.
int begin(Library& all, Gpu* gpu, const void* result, const char* function) {
  if (all.initialised == 0) return kUninitialized;
  bool known = false;
  for (const Gpu& one : all.gpus) known = known || &one == gpu;
  if (!known || result == nullptr) return kInvalidArgument;
  ++gpu->queries;
  if (gpu->lost_at > 0 && gpu->queries >= gpu->lost_at) return kGpuIsLost;
  const bool unsupported =
      all.unsupported.find(std::string(",") + function + ",") != std::string::npos;
  return unsupported ? kNotSupported : kSuccess;
}

template <class Result, class Answer>
int query(Gpu* gpu, Result* result, const char* function, const Answer& answer) {
  Library& all = library();
  const std::lock_guard lock(all.mutex);
  const int status = begin(all, gpu, result, function);
  return status == kSuccess ? answer(*result) : status;
}

}  // namespace

extern "C" {

struct Utilization {
  unsigned gpu, memory;
};
struct Memory {
  unsigned long long total, free, used;
};

int nvmlInit_v2() {
  Library& all = library();
  const std::lock_guard lock(all.mutex);
  if (const int status = std::stoi(variable("TRAINER_FAKE_NVML_INIT", "0"))) return status;
  if (all.initialised++ == 0 && all.gpus.empty()) read_environment(all);
  return kSuccess;
}

int nvmlShutdown() {
  Library& all = library();
  const std::lock_guard lock(all.mutex);
  if (all.initialised == 0) return kUninitialized;
  --all.initialised;
  return kSuccess;
}

const char* nvmlErrorString(int status) {
  switch (status) {
    case kSuccess:
      return "The operation was successful";
    case kUninitialized:
      return "Uninitialized";
    case kInvalidArgument:
      return "Invalid Argument";
    case kNotSupported:
      return "Not Supported";
    case kNotFound:
      return "Not Found";
    case 9:
      return "Driver Not Loaded";
    case kGpuIsLost:
      return "GPU is lost";
    case 18:
      return "Driver/library version mismatch";
    default:
      return "Unknown Error";
  }
}

int nvmlDeviceGetHandleByUUID(const char* uuid, Gpu** gpu) {
  Library& all = library();
  const std::lock_guard lock(all.mutex);
  if (all.initialised == 0) return kUninitialized;
  if (uuid == nullptr || gpu == nullptr) return kInvalidArgument;
  for (Gpu& one : all.gpus) {
    char own[64];
    std::snprintf(own, sizeof own, "GPU-fa000000-0000-0000-0000-0000000000%02x", one.index);
    if (std::strcmp(own, uuid) != 0) continue;
    *gpu = &one;
    return kSuccess;
  }
  return kNotFound;
}

int nvmlDeviceGetUtilizationRates(Gpu* gpu, Utilization* result) {
  return query(gpu, result, "nvmlDeviceGetUtilizationRates", [&](Utilization& rates) {
    rates = {gpu->utilization, gpu->utilization / 2};
    return kSuccess;
  });
}

int nvmlDeviceGetMemoryInfo(Gpu* gpu, Memory* result) {
  return query(gpu, result, "nvmlDeviceGetMemoryInfo", [&](Memory& memory) {
    memory = {8ull << 30, 6ull << 30, 2ull << 30};
    return kSuccess;
  });
}

int nvmlDeviceGetPowerUsage(Gpu* gpu, unsigned* result) {
  return query(gpu, result, "nvmlDeviceGetPowerUsage", [&](unsigned& milliwatts) {
    milliwatts = gpu->watts * 1000;
    return kSuccess;
  });
}

int nvmlDeviceGetTemperature(Gpu* gpu, int sensor, unsigned* result) {
  return query(gpu, result, "nvmlDeviceGetTemperature", [&](unsigned& celsius) {
    if (sensor != 0) return kInvalidArgument;
    celsius = 60 + static_cast<unsigned>(gpu->index);
    return kSuccess;
  });
}

int nvmlDeviceGetClockInfo(Gpu* gpu, int type, unsigned* result) {
  return query(gpu, result, "nvmlDeviceGetClockInfo", [&](unsigned& megahertz) {
    static constexpr std::array<unsigned, 4> kClocks{1500, 1755, 2619,
                                                     1395};  // graphics, SM, memory, video
    if (type < 0 || type >= static_cast<int>(kClocks.size())) return kInvalidArgument;
    megahertz = kClocks[static_cast<std::size_t>(type)];
    return kSuccess;
  });
}

int nvmlDeviceGetTotalEccErrors(Gpu* gpu, int type, int counter, unsigned long long* result) {
  return query(gpu, result, "nvmlDeviceGetTotalEccErrors", [&](unsigned long long& errors) {
    constexpr unsigned kCorrected = 100, kBefore = 1000;  // counts that no message has
    if (type < 0 || type > 1 || counter < 0 || counter > 1) return kInvalidArgument;
    errors = (type == 1 ? gpu->ecc_errors : kCorrected) + (counter == 1 ? kBefore : 0);
    return kSuccess;
  });
}

int nvmlDeviceGetRemappedRows(Gpu* gpu, unsigned* corrected, unsigned* uncorrected,
                              unsigned* is_pending, unsigned* has_failed) {
  if (uncorrected == nullptr || is_pending == nullptr || has_failed == nullptr) {
    return kInvalidArgument;
  }
  return query(gpu, corrected, "nvmlDeviceGetRemappedRows", [&](unsigned& after_corrected) {
    after_corrected = gpu->remapped_rows / 2;
    *uncorrected = gpu->remapped_rows - after_corrected;
    *is_pending = gpu->remapped_rows > 0 ? 1 : 0;
    *has_failed = 0;
    return kSuccess;
  });
}

#ifndef FAKE_NVML_WITHOUT_ENERGY  // as in libraries of before Volta
int nvmlDeviceGetTotalEnergyConsumption(Gpu* gpu, unsigned long long* result) {
  return query(gpu, result, "nvmlDeviceGetTotalEnergyConsumption", [&](unsigned long long& energy) {
    gpu->millijoules += gpu->watts * 1000ull;
    energy = gpu->millijoules;
    return kSuccess;
  });
}
#endif

}  // extern "C"
