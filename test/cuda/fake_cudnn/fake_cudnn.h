// cuDNN's backend API and cuBLASLt for the CPU: the functions that lib/backend/cuda calls, which
// check what the manuals demand, compute in double and round every stored tensor to its type. They
// are linked in place of the real libraries. Work waits in the fake runtime's streams.
//
// The fakes offer several engines, most of which must not be used: those give wrong results.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "cuda/fake_runtime/fake.h"

namespace fake {

// A descriptor just before it is finalized, for tests that make mistakes on purpose.
class OpenDescriptor {
 public:
  virtual ~OpenDescriptor() = default;
  virtual cudnnBackendDescriptorType_t type() const = 0;
  // The 64-bit integers of an attribute; empty when it is not set.
  virtual std::vector<std::int64_t> integers(cudnnBackendAttributeName_t name) const = 0;
  virtual void set_integers(cudnnBackendAttributeName_t name,
                            const std::vector<std::int64_t>& values) = 0;
  // An attribute of an enumeration's type.
  virtual void set_enumerator(cudnnBackendAttributeName_t name, int value) = 0;
  virtual void set_float(cudnnBackendAttributeName_t name, float value) = 0;
};

// How the libraries behave. Tests change it while nothing else runs, and put it back.
struct LibrarySettings {
  std::size_t cudnn_version = 91900;  // or TRAINER_FAKE_CUDNN_VERSION of the environment
  std::size_t cublas_version = 130100;
  // True if precompiled engines take convolutions with a bias, and algorithms take epilogues.
  bool fuses = true;
  // Bytes that cuBLASLt's algorithms and the engine with tensor cores need; the others need less.
  std::int64_t workspace_bytes = 4096;
  // What an engine, by its number, and an algorithm, by its place in the heuristic's list, takes a
  // device; empty: all the same, but half as long the engine that TRAINER_FAKE_CUDNN_FASTEST names.
  std::function<double(std::int64_t)> engine_seconds, algorithm_seconds;
  std::function<void(OpenDescriptor&)> before_finalize;
  std::function<void(cublasLtMatmulDescAttributes_t, std::int32_t&)> before_matmul_attribute;
};
LibrarySettings& settings();

// Puts the settings back at the end of a test.
struct KeepSettings {
  LibrarySettings before = settings();
  ~KeepSettings() { settings() = before; }
};

// Descriptors, layouts, preferences and handles that were made and not destroyed.
std::size_t live_objects();
// Execution plans that were made by choosing an engine, as opposed to reading a stored plan.
std::size_t chosen_plans();

}  // namespace fake
