// The backend that tests of the engine and the loop run on: the one place that names it.
#pragma once

#include <memory>
#include <vector>

#include "backend/open.h"

namespace trainer::test {

// One backend a replica.
inline std::vector<std::unique_ptr<backend::Backend>> open_test_backends(std::int64_t replicas) {
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
