// The processor as a device.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "backend/cpu/lanes/one_sample_form.h"
#include "backend/open.h"
#include "base/process/progress.h"
#include "base/threads/topology.h"

namespace trainer::backend::cpu {

struct CpuOptions {
  int threads = 0;      // 0: as many as cores that this process may use
  int all_threads = 0;  // threads of all replicas of this process; 0: there is one replica
  int lanes = 0;        // each lane has threads / lanes threads; 0: the backend chooses
  // The kernels to use: "x86-64-v3", "x86-64-v4", or "amx", which is the latter with AMX for
  // bfloat16. If empty, the best kernels that this processor can run.
  std::string instruction_set;
  // The processors that the threads run on, in the order of Topology::processors; lanes are chosen
  // for them. Empty if they are unknown or fewer than the threads.
  std::vector<Processor> processors;
  // Defines on which processors the threads of a lane run: on all, on those of the lane's nodes, or
  // on as many processors as the lane has threads.
  enum class Binding { kNone, kNodes, kProcessors } binding = Binding::kNone;
  Progress progress = {};  // advances with the layers
  // The clocks by which calls of one sample choose between all threads and one.
  ReadThreadTimes read_thread_times = &cpu::read_thread_times;
};
// Throws DeviceError if this processor cannot run the kernels.
std::unique_ptr<Backend> open_backend(const CpuOptions& options);

// Opens a backend per replica, each with its share of the cores.
std::vector<std::unique_ptr<Backend>> open_replicas(const DeviceOptions& options);
// Returns options with more lanes in each replica, another number for each variant from 0 on. They
// divide batches differently.
DeviceOptions reorder_sums(DeviceOptions options, std::int64_t variant);
// Returns a warning about the options that ask for more cores than there are; "" if none does.
std::string core_warning(const DeviceOptions& options);

}  // namespace trainer::backend::cpu
