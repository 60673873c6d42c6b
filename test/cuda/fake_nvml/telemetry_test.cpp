// What is read of GPUs through NVML, and what is reported where it cannot be read. Each case is a
// process of its own, which finds its libnvidia-ml.so.1 through LD_LIBRARY_PATH.
#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "backend/cuda/runtime.h"
#include "backend/cuda/telemetry/gpu_telemetry.h"
#include "base/error.h"
#include "base/files/files.h"

namespace trainer::backend::cuda {
namespace {

namespace fs = std::filesystem;

// What a process prints of two readings of fake CUDA device TRAINER_READ_DEVICE.
std::string readings(const Path& library, const std::string& environment = "") {
  const TemporaryFolder folder;
  fs::copy_file(library, folder.path() / "libnvidia-ml.so.1");
  const std::string self = fs::read_symlink("/proc/self/exe").string();
  const Path out = folder.path() / "out";
  const int status = std::system(
      concat("LD_LIBRARY_PATH=", folder.path().string(), " ", environment, " ", self,
             " -tc='make_gpu_telemetry prints readings for another test' -ns > ", out.string())
          .c_str());
  CHECK(status == 0);
  return read_text_file(out);
}

void print(const char* name, const std::optional<double>& value) {
  if (value) std::printf(" %s %g", name, *value);
}

}  // namespace

TEST_CASE("make_gpu_telemetry reads load, memory, power, clocks and energy of a GPU by its UUID") {
  const std::string text = readings(FAKE_NVML,
                                    "TRAINER_READ_DEVICE=1 TRAINER_FAKE_NVML_UTILIZATION=90,40 "
                                    "TRAINER_FAKE_NVML_WATTS=300,150");
  const std::string rest = " memory 2.14748e+09 power 150 temperature 61 sm 1755 memory_clock 2619";
  CHECK(text.find("gpu1: utilization 0.4 memory_utilization 0.2" + rest + " energy 7150\n") !=
        std::string::npos);
  CHECK(text.find("gpu1: utilization 0.4 memory_utilization 0.2" + rest + " energy 7300\n") !=
        std::string::npos);
}

TEST_CASE("make_gpu_telemetry leaves out readings that a GPU does not support") {
  const std::string text = readings(FAKE_NVML,
                                    "TRAINER_FAKE_NVML_UNSUPPORTED=nvmlDeviceGetUtilizationRates,"
                                    "nvmlDeviceGetTotalEnergyConsumption");
  CHECK(
      text.find("gpu0: memory 2.14748e+09 power 200 temperature 60 sm 1755 memory_clock 2619\n") !=
      std::string::npos);
}

TEST_CASE("make_gpu_telemetry leaves out readings that NVML has no function for") {
  const std::string text = readings(FAKE_NVML_WITHOUT_ENERGY);
  CHECK(text.find("power 200 ") != std::string::npos);
  CHECK(text.find("energy") == std::string::npos);
}

TEST_CASE("make_gpu_telemetry: the error of a GPU that is lost names it") {
  // A reading is seven queries.
  CHECK(readings(FAKE_NVML, "TRAINER_FAKE_NVML_LOST=0:8")
            .find("error: GPU 0: nvmlDeviceGetUtilizationRates: GPU is lost\n") !=
        std::string::npos);
}

TEST_CASE(
    "make_gpu_telemetry: the error of an NVML that is too old has the function that it lacks") {
  const std::string said = readings(OLD_NVML);
  CHECK(said.find("error: libnvidia-ml.so.1 has no function nvmlInit_v2 (") != std::string::npos);
  CHECK(said.find("); update the NVIDIA driver\n") != std::string::npos);
}

TEST_CASE("make_gpu_telemetry: the error of an NVML that cannot be opened has the reason") {
  const TemporaryFolder folder;
  const Path text = folder.path() / "text";
  std::ofstream(text) << "not a library, but a text that is long enough to be read as a head\n";
  const std::string said = readings(text);
  CHECK(said.find("error: NVML cannot be opened: ") != std::string::npos);
  CHECK(said.find("NVIDIA_DRIVER_CAPABILITIES") != std::string::npos);
}

TEST_CASE("make_gpu_telemetry: an NVML of another driver version is an error") {
  CHECK(readings(FAKE_NVML, "TRAINER_FAKE_NVML_INIT=18")
            .find("error: nvmlInit_v2: Driver/library version mismatch\n") != std::string::npos);
}

TEST_CASE("make_gpu_telemetry: the error of a GPU that NVML does not find names it") {
  CHECK(readings(FAKE_NVML, "TRAINER_READ_DEVICE=1 TRAINER_FAKE_NVML_DEVICES=1")
            .find("error: nvmlDeviceGetHandleByUUID of GPU 1 "
                  "(GPU-fa000000-0000-0000-0000-000000000001): Not Found\n") != std::string::npos);
}

TEST_CASE("check: the error has the GPU, how to find the layer, and the faults that NVML counted") {
  const std::string failing =
      "TRAINER_READ_DEVICE=1 TRAINER_FAKE_CUDA_FAIL=cudaStreamCreateWithFlags@1:1:"
      "cudaErrorIllegalAddress ";
  const std::string error =
      "error: GPU 1: cudaStreamCreateWithFlags: cudaErrorIllegalAddress: an illegal memory access "
      "was encountered; with TRAINER_CUDA_SYNC=1 the error names the layer";
  const auto reading = [&failing](const std::string& environment) {
    return readings(FAKE_NVML, failing + environment);
  };
  CHECK(reading("").find(error + "\n") != std::string::npos);
  CHECK(reading("TRAINER_FAKE_NVML_ECC=4,3 TRAINER_FAKE_NVML_REMAPPED=0,2")
            .find(error +
                  "; NVML: 3 uncorrected ECC errors since the driver was loaded, 2 remapped "
                  "rows, a remapping waits for a reset of the GPU\n") != std::string::npos);
  CHECK(reading("TRAINER_FAKE_NVML_ECC=4,3 "
                "TRAINER_FAKE_NVML_UNSUPPORTED=nvmlDeviceGetTotalEccErrors")
            .find(error + "\n") != std::string::npos);
  // After two readings of seven queries.
  CHECK(reading("TRAINER_FAKE_NVML_LOST=1:15").find(error + "; NVML: GPU is lost\n") !=
        std::string::npos);
}

TEST_CASE("make_gpu_telemetry prints readings for another test" * doctest::skip()) {
  const char* device = std::getenv("TRAINER_READ_DEVICE");
  try {
    const int number = device == nullptr ? 0 : std::atoi(device);
    const auto telemetry = make_gpu_telemetry(number);
    for (int i = 0; i < 2; ++i) {
      const DeviceReading reading = telemetry->read();
      std::printf("%s:", telemetry->device().c_str());
      print("utilization", reading.utilization);
      print("memory_utilization", reading.memory_utilization);
      print("memory", reading.memory_bytes);
      print("power", reading.power_watts);
      print("temperature", reading.temperature_celsius);
      print("sm", reading.sm_clock_mhz);
      print("memory_clock", reading.memory_clock_mhz);
      print("energy", reading.energy_joules);
      std::puts("");
    }
    const DeviceGuard guard(number);
    create_stream();
  } catch (const DeviceError& error) {
    std::printf("error: %s\n", error.what());
  }
}

}  // namespace trainer::backend::cuda
