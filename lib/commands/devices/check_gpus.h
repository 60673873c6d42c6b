// Checks that several GPUs train together as one GPU does.
// Reasons: lib/decisions/backend.md#several-gpus-are-checked-before-their-first-run.
#pragma once

#include <cstdint>
#include <string>

#include "backend/open.h"
#include "base/notice.h"
#include "base/process/environment.h"

namespace trainer::commands {

// The GPUs that a process trains on.
struct CheckedGpus {
  std::string gpus;  // the value of parallel.gpus: "2" or "[0, 2]"
  std::int64_t count = 0;
};

// Returns all that a passed check depends on, as text: the GPUs, the libraries, the driver, and the
// variables that change how GPUs are used. `driver` is the text in which the driver names its
// release.
std::string describe_checked(const CheckedGpus& checked, const backend::GpuLibraries& libraries,
                             const std::string& driver, const Environment& environment);

// Trains in child processes on the GPUs and on the first of them alone, with CUDA graphs (unless
// TRAINER_CUDA_GRAPHS is 0) and without them, and compares the parameters. A pass is kept in
// platform.tuning_cache; with `use_passed`, what has passed is not checked again. Shows when it
// begins and what it found. Throws DeviceError with the reason and remedies if the GPUs fail or the
// limit of TRAINER_GPU_CHECK seconds (60; 0: no check) passes, and ConfigError for another value of
// it. Does nothing if the machine has fewer GPUs, which opening them reports.
void check_gpus(const CheckedGpus& checked, bool use_passed, const backend::Platform& platform,
                const Environment& environment, const Warn& warn);

// Checks all GPUs of this machine, also if they have passed. Throws DeviceError if there are not
// several.
void check_all_gpus(const backend::Platform& platform, const Environment& environment,
                    const Warn& warn);

}  // namespace trainer::commands
