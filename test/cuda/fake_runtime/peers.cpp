// Memory calls that wait for the devices of other ranks.
//
// NCCL enables peer access between the devices of a process, and memory is mapped on all peers of a
// device. Memory calls therefore wait for all work of the device and of its peers: nccl#48 (a
// thread in cudaFreeHost and the kernels of an all-reduce wait for each other), nccl#744,
// pytorch#50925 ("cudaFree on a particular device syncs with all work on that device and its peer
// devices"), and the CUDA Programming Guide, "Implicit Synchronization" (allocation of page-locked
// and of device memory). cudaGraphInstantiate and the upload of a graph allocate memory of the
// device. A collective of one rank runs until the last rank has launched its own, so a rank that
// makes a memory call before it launches waits for ever.
//
// While a memory call waits, launches of other threads on these devices wait for the call: the
// example of pytorch#50925 hangs only because of that, as does nccl#613 ("if cudaCall2 on one GPU
// blocks cudaCall1 on another GPU").
//
// The first launch of a kernel on a device loads it, which is a memory call too: CUDA Programming
// Guide, "Lazy Loading", "Concurrent execution". The kernel takes memory of the device that nothing
// gives back, and cannot be loaded where a program has taken all of it ("Large memory allocations";
// CUDA_MODULE_LOADING=EAGER loads all kernels of all libraries at the start instead). The first
// launch of a graph that was not uploaded before is a memory call too: graph.cpp.
//
// All of these waits always take place. On a device they may depend on the driver and on sizes.
#include <algorithm>
#include <vector>

#include "cuda/fake_runtime/world.h"

namespace fake {
namespace {

void add_last(const std::set<int>& devices, const CUstream_st& stream,
              std::vector<OperationPtr>& last) {
  if (devices.contains(stream.device) && !stream.pending.empty()) {
    last.push_back(stream.pending.back());
  }
}

std::vector<OperationPtr> submitted_work(const World& w, const std::set<int>& devices) {
  std::vector<OperationPtr> last;
  for (const auto& stream : w.legacy_streams) {
    if (stream) add_last(devices, *stream, last);
  }
  for (const auto& [handle, stream] : w.streams) add_last(devices, *stream, last);
  for (const auto& stream : w.destroyed_streams) add_last(devices, *stream, last);
  return last;
}

}  // namespace

cudaError_t wait_for_peers(Lock& lock, const std::string& function, int device) {
  World& w = world();
  const std::set<int> devices = w.settings.peer_access ? peers(device) : std::set<int>();
  const int waiting = device < 0 ? current_device() : device;
  const cudaError_t sticky = sticky_error(w, waiting);
  if (devices.empty() || sticky != cudaSuccess) return sticky;
  std::vector<OperationPtr> last = submitted_work(w, devices);
  const auto are_done = [&w, &last] {
    std::erase_if(last, [&w](const OperationPtr& op) { return op->done || !may_run(w, *op); });
    return last.empty();
  };
  if (are_done()) return cudaSuccess;
  std::string text = function;
  if (device >= 0) text += " on device " + std::to_string(device);
  text += " waits for the work of devices";
  for (const int peer : devices) text += " " + std::to_string(peer);
  const auto call = w.waiting_calls.insert(w.waiting_calls.end(),
                                           {std::move(text), devices, std::this_thread::get_id()});
  const cudaError_t status = run_until(lock, waiting, are_done);
  w.waiting_calls.erase(call);
  w.changed();
  return status;
}

cudaError_t begin_launch(Lock& lock, int device, const std::string& kernel) {
  World& w = world();
  std::set<std::string>& loaded = w.loaded[static_cast<std::size_t>(device)];
  if (!kernel.empty() && !loaded.contains(kernel)) {
    if (free_bytes(w, device) < w.settings.kernel_bytes) return cudaErrorMemoryAllocation;
    loaded.insert(kernel);
    const cudaError_t status = wait_for_peers(lock, "the first launch of " + kernel, device);
    if (status != cudaSuccess) return status;
  }
  return run_until(lock, device, [&w, device] {
    return std::none_of(w.waiting_calls.begin(), w.waiting_calls.end(), [device](const auto& call) {
      return call.thread != std::this_thread::get_id() && call.devices.contains(device);
    });
  });
}

}  // namespace fake
