// The backend that tests of the engine and the loop run on: the one place that names it. The CPU's,
// or the asynchronous reference backend where TRAINER_TEST_BACKEND is "reference".
#pragma once

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "backend/open.h"
#include "reference_backend/reference_backend.h"

namespace trainer::test {

// One backend a replica.
inline std::vector<std::unique_ptr<backend::Backend>> open_test_backends(std::int64_t replicas) {
  const char* name = std::getenv("TRAINER_TEST_BACKEND");
  if (name != nullptr && std::string(name) == "reference") {
    std::vector<std::unique_ptr<backend::Backend>> backends;
    for (std::int64_t i = 0; i < replicas; ++i) backends.push_back(open_reference_backend());
    return backends;
  }
  backend::DeviceOptions options;
  options.kind = backend::DeviceOptions::Kind::kCpu;
  options.replicas = replicas;
  options.threads = replicas;
  return backend::open_backends(options);
}

inline std::unique_ptr<backend::Backend> open_test_backend() {
  return std::move(open_test_backends(1).front());
}

}  // namespace trainer::test
