// The backend that tests of the engine and the loop run on: the one place that names it.
#pragma once

#include <memory>
#include <vector>

#include "backend/backend.h"

namespace trainer::test {

inline std::unique_ptr<backend::Backend> open_test_backend() {
  backend::CpuOptions options;
  options.threads = 1;
  return backend::open_cpu_backend(options);
}

// One a replica.
inline std::vector<std::unique_ptr<backend::Backend>> open_test_backends(std::int64_t replicas) {
  std::vector<std::unique_ptr<backend::Backend>> backends;
  for (std::int64_t i = 0; i < replicas; ++i) backends.push_back(open_test_backend());
  return backends;
}

}  // namespace trainer::test
