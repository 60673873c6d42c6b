// Sums over GPUs: NCCL between devices, kernels of our own between ranks that share one.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "backend/collective.h"

namespace trainer::backend::cuda {

// One thread makes all calls except check() and abort(), which any thread may make. A call enqueues
// work and returns, but waits for the ranks of this process. The first error ends the group: every
// later call throws. An error of another rank is a MemberFailed, so that a thread team reports the
// error that caused it.
class CudaCollective : public Collective {
 public:
  ~CudaCollective() override { leave_waiters(); }
  CudaCollective* on_gpus() final { return this; }
  // `stream` is a CudaStream (stream.h).
  void all_reduce(Span values, std::int64_t count, Stream& stream) final;
  virtual void all_reduce(float* values, std::int64_t count, cudaStream_t stream) = 0;
  // to[rank * count ... ] = each rank's `from`, in rank order; `to` holds size() * count values.
  virtual void all_gather(const float* from, float* to, std::int64_t count,
                          cudaStream_t stream) = 0;
  // Throws the error that ended the group, if any. A host thread calls it after it has waited for
  // the device, because a failure ends the device's work without results.
  virtual void check() = 0;
  // Returns whether calls may be captured into a CUDA graph.
  virtual bool capturable() const = 0;
  // Between begin_capture() and end_capture() calls become part of a graph and are not done. The
  // ranks capture the same calls, and replay their graphs in the same order. A graph must be
  // destroyed before its collective.
  virtual void begin_capture() {}
  virtual void end_capture() {}
  // Launches a graph with captured calls, unless the group has ended.
  virtual void replay(cudaStream_t stream, const std::function<void()>& launch) = 0;
  // Sets what the next calls sum, which errors name: "gradients" of an update.
  void name_work(const char* what, std::uint64_t update) {
    work_.store(what, std::memory_order_relaxed);
    update_.store(update, std::memory_order_relaxed);
  }

  std::function<void()> on_destroy;  // removes the collective from those that call check()

 protected:
  // Ends the calls of check(). A destructor must call it first.
  void leave_waiters() {
    if (on_destroy) std::exchange(on_destroy, nullptr)();
  }
  // ", summing gradients in step 3", or "" before name_work().
  std::string named_work() const;

 private:
  std::atomic<const char*> work_{nullptr};
  std::atomic<std::uint64_t> update_{0};
};

// Returns the collective of GPUs that this is, and null for null. Throws std::logic_error for a
// collective of another backend.
CudaCollective* cuda_collective(Collective* collective);

// The group of the devices whose ranks meet in `ranks`, which must outlive it: the ids of NCCL and
// the names of the devices travel through it. Collective. Ranks of one device and one process get
// the sums of shared_device_collective.cpp, all others NCCL, which is loaded on demand. Throws
// DeviceError when NCCL is missing, when ranks of several processes share a device, or when only
// some of the ranks share one. A wait for ranks that do not come ends after `timeout` with a
// PeerError that names them. `device` must be the current one.
std::unique_ptr<CudaCollective> make_cuda_collective(
    cluster::Communicator& ranks, int device,
    std::chrono::milliseconds timeout = std::chrono::seconds(60));

struct RankGroup;
// Makes the collective of ranks that share one device in one process, which NCCL cannot serve.
// Every rank must be made one, by a thread of its own.
std::unique_ptr<CudaCollective> make_shared_device_collective(RankGroup group,
                                                              std::chrono::milliseconds timeout);
// Makes the collective of ranks with a device each, by NCCL. Collective. `ranks` must outlive it.
std::unique_ptr<CudaCollective> make_nccl_collective(RankGroup group, cluster::Communicator& ranks,
                                                     std::chrono::milliseconds timeout);

}  // namespace trainer::backend::cuda
