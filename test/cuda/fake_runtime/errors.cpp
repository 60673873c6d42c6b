// Errors: names, the last one of a thread, sticky ones, and those that a test asks for.
//
// Follows CUDA Runtime API 13.0, "Error Handling" (cudaGetLastError, cudaGetErrorName) and
// "Data types used by CUDA Runtime", cudaError: errors after which "the process must be
// terminated and relaunched" are returned by all later calls. They are errors of a context, of
// which a process has one per device (CUDA Programming Guide, "Initialization"), so that calls on
// other devices go on.
#include <nccl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <utility>

#include "cuda/fake_runtime/fake.h"
#include "cuda/fake_runtime/world.h"

namespace fake {
namespace {

struct Description {
  cudaError_t error;
  const char* name;
  const char* text;
};
constexpr Description kDescriptions[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInitializationError, "cudaErrorInitializationError", "initialization error"},
    {cudaErrorCudartUnloading, "cudaErrorCudartUnloading", "driver shutting down"},
    {cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration",
     "invalid configuration argument"},
    {cudaErrorInvalidMemcpyDirection, "cudaErrorInvalidMemcpyDirection",
     "invalid copy direction for memcpy"},
    {cudaErrorInsufficientDriver, "cudaErrorInsufficientDriver",
     "CUDA driver version is insufficient for CUDA runtime version"},
    {cudaErrorStubLibrary, "cudaErrorStubLibrary", "CUDA driver is a stub library"},
    {cudaErrorInvalidDeviceFunction, "cudaErrorInvalidDeviceFunction", "invalid device function"},
    {cudaErrorDevicesUnavailable, "cudaErrorDevicesUnavailable",
     "CUDA-capable device(s) is/are busy or unavailable"},
    {cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorNoKernelImageForDevice, "cudaErrorNoKernelImageForDevice",
     "no kernel image is available for execution on the device"},
    {cudaErrorECCUncorrectable, "cudaErrorECCUncorrectable", "uncorrectable ECC error encountered"},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {cudaErrorIllegalState, "cudaErrorIllegalState",
     "the operation cannot be performed in the present state"},
    {cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
    {cudaErrorIllegalAddress, "cudaErrorIllegalAddress",
     "an illegal memory access was encountered"},
    {cudaErrorLaunchOutOfResources, "cudaErrorLaunchOutOfResources",
     "too many resources requested for launch"},
    {cudaErrorLaunchTimeout, "cudaErrorLaunchTimeout", "the launch timed out and was terminated"},
    {cudaErrorAssert, "cudaErrorAssert", "device-side assert triggered"},
    {cudaErrorHardwareStackError, "cudaErrorHardwareStackError", "hardware stack error"},
    {cudaErrorIllegalInstruction, "cudaErrorIllegalInstruction",
     "an illegal instruction was encountered"},
    {cudaErrorMisalignedAddress, "cudaErrorMisalignedAddress", "misaligned address"},
    {cudaErrorInvalidAddressSpace, "cudaErrorInvalidAddressSpace",
     "operation not supported on global/shared address space"},
    {cudaErrorInvalidPc, "cudaErrorInvalidPc", "invalid program counter"},
    {cudaErrorLaunchFailure, "cudaErrorLaunchFailure", "unspecified launch failure"},
    {cudaErrorNotSupported, "cudaErrorNotSupported", "operation not supported"},
    {cudaErrorSystemNotReady, "cudaErrorSystemNotReady", "system not yet initialized"},
    {cudaErrorSystemDriverMismatch, "cudaErrorSystemDriverMismatch",
     "system has unsupported display driver / cuda driver combination"},
    {cudaErrorCompatNotSupportedOnDevice, "cudaErrorCompatNotSupportedOnDevice",
     "forward compatibility was attempted on non supported HW"},
    {cudaErrorStreamCaptureUnsupported, "cudaErrorStreamCaptureUnsupported",
     "operation not permitted when stream is capturing"},
    {cudaErrorStreamCaptureInvalidated, "cudaErrorStreamCaptureInvalidated",
     "operation failed due to a previous error during capture"},
    {cudaErrorStreamCaptureMerge, "cudaErrorStreamCaptureMerge",
     "operation would result in a merge of separate capture sequences"},
    {cudaErrorStreamCaptureUnmatched, "cudaErrorStreamCaptureUnmatched",
     "capture was not ended in the same stream as it began"},
    {cudaErrorStreamCaptureUnjoined, "cudaErrorStreamCaptureUnjoined",
     "capturing stream has unjoined work"},
    {cudaErrorStreamCaptureIsolation, "cudaErrorStreamCaptureIsolation",
     "dependency created on uncaptured work in another stream"},
    {cudaErrorStreamCaptureImplicit, "cudaErrorStreamCaptureImplicit",
     "operation would make the legacy stream depend on a capturing blocking stream"},
    {cudaErrorCapturedEvent, "cudaErrorCapturedEvent",
     "operation not permitted on an event last recorded in a capturing stream"},
    {cudaErrorStreamCaptureWrongThread, "cudaErrorStreamCaptureWrongThread",
     "attempt to terminate a thread-local capture sequence from another thread"},
    {cudaErrorUnknown, "cudaErrorUnknown", "unknown error"},
};

const Description* find(cudaError_t error) {
  for (const Description& d : kDescriptions) {
    if (d.error == error) return &d;
  }
  return nullptr;
}

// Those whose description in driver_types.h ends with "the process must be terminated".
bool is_sticky(cudaError_t error) {
  switch (error) {
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
    case cudaErrorECCUncorrectable:
      return true;
    default:
      return false;
  }
}

struct LastError {
  cudaError_t error = cudaSuccess;
  unsigned generation = 0;
};
thread_local LastError last_error;

constexpr const char* kNcclNames[] = {
    "ncclSuccess",         "ncclUnhandledCudaError", "ncclSystemError", "ncclInternalError",
    "ncclInvalidArgument", "ncclInvalidUsage",       "ncclRemoteError", "ncclInProgress"};

// The injected "error" of a call that never returns.
constexpr int kHang = -1;

int parse_error(const std::string& text) {
  if (text == "hang") return kHang;
  if (text == "wrong") return kWrong;
  if (text == "endless") return kEndless;
  if (!text.empty() && text.find_first_not_of("0123456789") == std::string::npos) {
    return std::stoi(text);
  }
  for (const Description& d : kDescriptions) {
    if (text == d.name) return d.error;
  }
  for (int i = 0; i < static_cast<int>(std::size(kNcclNames)); ++i) {
    if (text == kNcclNames[i]) return i;
  }
  throw std::invalid_argument("the fake of CUDA has no error called '" + text + "'");
}

}  // namespace

void print(const std::string& line) { std::fprintf(stderr, "fake cuda: %s\n", line.c_str()); }

void make_sticky(World& w, int device, cudaError_t error, const std::string& why) {
  print(why);
  for (int d = 0; d < kMaxDevices; ++d) {
    cudaError_t& sticky = w.sticky[static_cast<std::size_t>(d)];
    if ((d == device || device == kAllDevices) && sticky == cudaSuccess) sticky = error;
  }
  w.changed();
}

cudaError_t sticky_error(const World& w, int device) {
  return w.sticky[static_cast<std::size_t>(device)];
}

namespace {

// The call keeps the lock of the world, so that every other call waits for it: calls of CUDA "take
// CUDA locks that might be held by the main thread that is starved due to a stuck collective"
// (pytorch/pytorch#110449, which reports it of aborts and of cudaEventDestroy).
[[noreturn]] void hang(const char* function) {
  print(std::string(function) + " never returns, as the test asked for");
  for (;;) ::pause();
}

}  // namespace

int injected_failure(World& w, const char* function) {
  const long call = ++w.calls[function];
  const auto at = std::find_if(w.failures.begin(), w.failures.end(), [&](const Failure& f) {
    return f.call == call && f.function == function;
  });
  if (at == w.failures.end()) return 0;
  if (at->error == kHang) hang(function);
  return at->error;
}

// A call that needs a context creates that of the thread's device, which is GPU 0 on a thread that
// has chosen none: CUDA Programming Guide, "Initialization"; meta-pytorch/torchcomms#777
// (cudaEventQuery), pytorch/FBGEMM#530 (cudaFree).
void create_context(World& w, const std::string& function) {
  if (function == "cudaGetDeviceProperties" || function == "cudaDeviceGetAttribute") return;
  if (w.contexts.insert(current_device()).second) w.changed();
}

cudaError_t begin(World& w, const char* function) {
  create_context(w, function);
  const std::string on_device = std::string(function) + "@" + std::to_string(current_device());
  int failure = injected_failure(w, function);
  if (failure == 0) failure = injected_failure(w, on_device.c_str());
  const auto injected = static_cast<cudaError_t>(failure);
  if (injected != cudaSuccess && is_sticky(injected)) {
    make_sticky(w, current_device(), injected, on_device + " fails as the test asked for");
  }
  return injected != cudaSuccess ? injected : sticky_error(w, current_device());
}

cudaError_t end(cudaError_t error) {
  if (error != cudaSuccess) last_error = {error, world().generation};
  return error;
}

Failure parse_failure(const std::string& text) {
  const std::size_t first = text.find(':'), second = text.find(':', first + 1);
  if (first == std::string::npos || second == std::string::npos) {
    throw std::invalid_argument("TRAINER_FAKE_CUDA_FAIL holds '" + text +
                                "', expected <function>:<n>:<error>");
  }
  return {text.substr(0, first), std::stol(text.substr(first + 1, second - first - 1)),
          parse_error(text.substr(second + 1))};
}

void fail(const std::string& function, int n, const std::string& error) {
  World& w = world();
  const Lock lock(w.mutex);
  w.failures.push_back({function, w.calls[function] + n, parse_error(error)});
}

}  // namespace fake

extern "C" {

const char* cudaGetErrorName(cudaError_t error) {
  const auto* d = fake::find(error);
  return d ? d->name : "unrecognized error code";
}

const char* cudaGetErrorString(cudaError_t error) {
  const auto* d = fake::find(error);
  return d ? d->text : "unrecognized error code";
}

cudaError_t cudaGetLastError() {
  fake::World& w = fake::world();
  const fake::Lock lock(w.mutex);
  const cudaError_t sticky = fake::sticky_error(w, fake::current_device());
  if (sticky != cudaSuccess) return sticky;
  const fake::LastError last = std::exchange(fake::last_error, {});
  return last.generation == w.generation ? last.error : cudaSuccess;
}

}  // extern "C"
