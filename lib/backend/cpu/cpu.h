// The processor as a device.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "backend/open.h"
#include "base/threads/topology.h"

namespace trainer::backend::cpu {

struct CpuOptions {
  int threads = 0;      // 0: all cores this process may use
  int all_threads = 0;  // of all replicas of this process; 0: there is one
  int lanes = 0;  // parallel.lanes: worker threads, each with threads / lanes threads; 0: chosen
  // Which of the kernels compiled for several instruction sets to use: "x86-64-v3", "x86-64-v4", or
  // "amx", which is the latter with AMX for bfloat16; the best that this processor runs when empty.
  std::string instruction_set;
  // What the threads run on, in the order of Topology::processors: lanes are chosen for them.
  // Empty: unknown, or fewer than threads.
  std::vector<Processor> processors;
  // What the threads of a lane are kept on: nothing, the processors of the lane's nodes, or as many
  // processors as it has threads.
  enum class Binding { kNone, kNodes, kProcessors } binding = Binding::kNone;
};
// Throws DeviceError when this processor has no such kernels.
std::unique_ptr<Backend> open_backend(const CpuOptions& options);

// A backend a replica, each with its share of the cores.
std::vector<std::unique_ptr<Backend>> open_replicas(const DeviceOptions& options);
// One worker thread more in each replica, which divides batches otherwise.
DeviceOptions with_other_sums(DeviceOptions options);
// Says which option asks for more cores than there are; "" when none does.
std::string core_warning(const DeviceOptions& options);

}  // namespace trainer::backend::cpu
