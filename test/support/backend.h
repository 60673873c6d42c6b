// The backend that tests run on: the one place that names it. The CPU's, or, as
// TRAINER_TEST_BACKEND names, the asynchronous reference backend ("reference") or that of the CUDA
// plugin ("cuda"), which TRAINER_CUDA_PLUGIN names.
#pragma once

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "backend/open.h"
#include "reference_backend/reference_backend.h"

namespace trainer::test {

inline std::string test_backend_name() {
  const char* name = std::getenv("TRAINER_TEST_BACKEND");
  return name == nullptr ? "cpu" : name;
}
inline bool uses_reference_backend() { return test_backend_name() == "reference"; }
inline bool uses_gpus() { return test_backend_name() == "cuda"; }

inline std::vector<std::unique_ptr<backend::Backend>> open_reference_backends(std::int64_t count) {
  std::vector<std::unique_ptr<backend::Backend>> backends;
  for (std::int64_t i = 0; i < count; ++i) backends.push_back(open_reference_backend());
  return backends;
}

// The platform with the plugin that tests use.
inline backend::Platform test_platform() {
  backend::Platform platform;
  if (const char* plugin = std::getenv("TRAINER_CUDA_PLUGIN")) platform.cuda_plugin = plugin;
  return platform;
}

// A backend a GPU of the plugin, the first ones; all on the first where TRAINER_TEST_SHARED_GPU is
// set.
inline std::vector<std::unique_ptr<backend::Backend>> open_test_gpus(
    std::int64_t count, const Progress& progress = {}) {
  backend::DeviceOptions options;
  options.platform = test_platform();
  options.platform.progress = progress;
  options.kind = DeviceKind::kCuda;
  options.replicas = count;
  if (std::getenv("TRAINER_TEST_SHARED_GPU") != nullptr) {
    options.gpus.assign(static_cast<std::size_t>(count), 0);
  }
  return backend::open_backends(options);
}

// The backends that `options` asks for, or as many of the backend that tests run on.
inline std::vector<std::unique_ptr<backend::Backend>> open_test_backends(
    const backend::DeviceOptions& options) {
  if (uses_gpus()) return open_test_gpus(options.replicas, options.platform.progress);
  if (uses_reference_backend()) return open_reference_backends(options.replicas);
  return backend::open_backends(options);
}

// One backend a replica.
inline std::vector<std::unique_ptr<backend::Backend>> open_test_backends(std::int64_t replicas) {
  backend::DeviceOptions options;
  options.kind = DeviceKind::kCpu;
  options.replicas = replicas;
  options.cpu.threads = replicas;
  return open_test_backends(options);
}

inline std::unique_ptr<backend::Backend> open_test_backend() {
  return std::move(open_test_backends(1).front());
}

}  // namespace trainer::test
