#include <thread>

#include "cuda/fake_runtime/test/support.h"

namespace trainer::test {

TEST_CASE("fake devices: the environment sets their number, and each thread begins with device 0") {
  const FreshFake fake("DEVICES", "3");
  int count = 0, device = -1;
  CUDA_CHECK(cudaGetDeviceCount(&count));
  CHECK(count == 3);
  CUDA_CHECK(cudaSetDevice(2));
  CUDA_CHECK(cudaGetDevice(&device));
  CHECK(device == 2);
  std::thread([&device] { cudaGetDevice(&device); }).join();
  CHECK(device == 0);
  CHECK(cudaSetDevice(3) == cudaErrorInvalidDevice);
  CHECK(cudaSetDevice(-1) == cudaErrorInvalidDevice);
}

TEST_CASE("fake devices: a call without a device is an error") {
  const FreshFake fake("DEVICES", "0");
  int count = -1;
  CHECK(cudaGetDeviceCount(&count) == cudaErrorNoDevice);
  CHECK(count == 0);
}

TEST_CASE("fake devices: properties and attributes agree") {
  const FreshFake fake("MEMORY", "123456789");
  cudaDeviceProp p{};
  CUDA_REQUIRE(cudaGetDeviceProperties(&p, 1));
  CHECK(p.totalGlobalMem == 123456789);
  CHECK(p.major == 9);
  const auto attribute = [](cudaDeviceAttr which) {
    int value = -1;
    CUDA_CHECK(cudaDeviceGetAttribute(&value, which, 1));
    return value;
  };
  CHECK(attribute(cudaDevAttrComputeCapabilityMajor) == p.major);
  CHECK(attribute(cudaDevAttrMultiProcessorCount) == p.multiProcessorCount);
  CHECK(attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin) ==
        static_cast<int>(p.sharedMemPerBlockOptin));
  CHECK(cudaGetDeviceProperties(&p, 2) == cudaErrorInvalidDevice);
}

TEST_CASE("fake devices: versions are those of the headers") {
  const FreshFake fake;
  int driver = 0, runtime = 0;
  CUDA_CHECK(cudaDriverGetVersion(&driver));
  CUDA_CHECK(cudaRuntimeGetVersion(&runtime));
  CHECK(driver == CUDART_VERSION);
  CHECK(runtime == CUDART_VERSION);
}

TEST_CASE(
    "fake devices: a call on a thread that has chosen no device makes a context on device 0") {
  const FreshFake fake;
  int count = 0;
  cudaDeviceProp properties{};
  CUDA_CHECK(cudaGetDeviceCount(&count));
  CUDA_CHECK(cudaGetDeviceProperties(&properties, 1));
  CHECK(fake::devices_with_context().empty());
  CUDA_REQUIRE(cudaSetDevice(1));
  const cudaEvent_t event = make_event();
  CHECK(fake::devices_with_context() == std::set<int>{1});
  std::thread([event] { CUDA_CHECK(cudaEventQuery(event)); }).join();
  CHECK(fake::devices_with_context() == std::set<int>{0, 1});
}

}  // namespace trainer::test
