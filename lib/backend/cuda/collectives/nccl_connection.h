// A communicator of NCCL whose calls block.
// Reasons: lib/decisions/backend.md#nccl-blocks-and-is-aborted-from-another-thread.
#pragma once

#include <nccl.h>

#include <chrono>
#include <memory>
#include <optional>
#include <thread>

namespace trainer::backend::cuda {

// NCCL's initialisation, and each of its calls, may wait for other ranks for ever. A thread of this
// object initialises the communicator and later aborts it, which ends the calls of other threads
// and the work on the device. The members are thread-safe.
class NcclConnection {
 public:
  struct Rank {
    int device = 0;
    int number = 0, size = 1;
  };
  // Starts to connect to the ranks of the id.
  NcclConnection(const ncclUniqueId& id, const Rank& rank);
  // Aborts, and waits at most 30 s for the end of the abort, because some versions of NCCL never
  // end it (nccl#1013, nccl#1777). A connection that is not made yet is left to its thread. All
  // graphs with calls of the communicator must be destroyed before, because the abort waits for
  // that.
  ~NcclConnection();
  NcclConnection(const NcclConnection&) = delete;
  NcclConnection& operator=(const NcclConnection&) = delete;

  // Returns the result of the initialisation, or nothing if it was not done within `limit` or
  // abort() was called.
  std::optional<ncclResult_t> wait_until_connected(std::chrono::milliseconds limit) const;
  // Returns at once. Only the first call counts.
  void abort() noexcept;

  // Must exist during each call of NCCL with the communicator.
  class Use {
   public:
    explicit Use(NcclConnection& connection);
    ~Use();
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    // Null before the connection is made, and after abort().
    ncclComm_t comm() const { return comm_; }

   private:
    NcclConnection& connection_;
    ncclComm_t comm_ = nullptr;
  };

 private:
  struct State;

  static void run(const std::shared_ptr<State>& state, ncclUniqueId id, const Rank& rank);

  // The thread shares it, because the thread may outlive this object.
  std::shared_ptr<State> state_;
  std::thread thread_;
};

}  // namespace trainer::backend::cuda
