// Communicators of the fake of NCCL, whose ranks are threads of this process, or of others that
// share a mailbox.
#pragma once

#include <nccl.h>

#include <atomic>
#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "cuda/fake_runtime/nccl/mailbox.h"
#include "cuda/fake_runtime/world.h"

namespace fake {

// What a rank asks for; all ranks must ask for the same.
struct Collective {
  enum class Kind { kAllReduce, kBroadcast, kAllGather } kind = Kind::kAllReduce;
  const void* from = nullptr;
  void* to = nullptr;
  std::size_t count = 0;  // the elements of `from`
  ncclDataType_t type = ncclFloat32;
  ncclRedOp_t op = ncclSum;
  int root = 0;
  int fault = 0;  // kWrong or kEndless, if the test asked for it
};

// A collective that some ranks have reached.
struct Call {
  std::size_t number = 0;  // counted from 0
  Collective what;         // the call of the first rank
  int first_rank = 0;
  std::size_t captured_as = 0;           // the first rank's number of the capture; 0: not captured
  std::vector<std::vector<char>> parts;  // a rank's `from`
  std::set<int> arrived;
  double since = 0;  // when the last of them began, in seconds of the device's time
  SyncPoint all_arrived;
};

constexpr int kOtherProcess = -1;  // the device of a rank that is not here

// What the ranks of a communicator share.
struct CommGroup {
  int size = 0;
  std::unique_ptr<Mailbox> mailbox;                    // null: all ranks are of this process
  std::map<int, int> devices;                          // those of the ranks that joined
  std::set<int> left;                                  // ranks that destroyed or aborted theirs
  std::set<int> connecting;                            // ranks that made their first call
  std::map<std::size_t, std::shared_ptr<Call>> calls;  // by number; some ranks are missing
  std::vector<std::weak_ptr<ncclComm>> communicators;  // those of the ranks of this process
  // True if all ranks have joined; looks for those of other processes.
  bool is_complete();
  std::size_t ranks_here() const;
  bool any_in_graphs() const;
  // Looks for what ranks of other processes have given to a call.
  void collect(Call& call) const;
};

}  // namespace fake

struct ncclComm {
  int rank = 0;
  int device = 0;
  bool blocking = true;
  bool connected = false;             // has made a call
  bool returned = false;              // the initialisation has returned it to its caller
  std::atomic<bool> aborted = false;  // read by operations too, without the lock
  std::shared_ptr<fake::CommGroup> group;
  std::size_t arrivals = 0;    // calls that this rank has reached
  std::size_t unfinished = 0;  // operations in streams
  std::size_t captures = 0;    // calls that were captured
  // Captured calls that a graph, a launch or a capture still holds.
  std::shared_ptr<void> graphs = std::make_shared<int>();
  ncclResult_t error = ncclSuccess;
  bool is_in_graphs() const { return graphs.use_count() > 1; }
  // A communicator that does not block returns ncclInProgress after a call until it was asked as
  // often; what it was asked for is in no stream before, and it takes no other call.
  int polls_left = 0;
  std::vector<std::function<ncclResult_t(fake::Lock&)>> deferred;
};

namespace fake {

using CommPtr = std::shared_ptr<ncclComm>;

// Null for a handle that is not a communicator.
CommPtr find_communicator(ncclComm_t comm);
// Keeps a message for ncclGetLastError.
ncclResult_t nccl_error(ncclResult_t result, const std::string& message);
// Does something now, or when the thread's group ends, or when a communicator that does not block
// is polled.
ncclResult_t run_or_defer(Lock& lock, const CommPtr& comm,
                          std::function<ncclResult_t(Lock&)> action);
// True if the calling thread is between ncclGroupStart and ncclGroupEnd.
bool in_group();
// Takes the memory of a connection for the first call of `comm`, and waits until all ranks of this
// process have made their first call, if TRAINER_FAKE_NCCL_CONNECT
// asks for it and this is the first of `comm`.
ncclResult_t connect(Lock& lock, const CommPtr& comm);
// Waits for something of other ranks; a deadlock ends it with ncclInternalError.
ncclResult_t wait_for_ranks(Lock& lock, const std::function<bool()>& condition);

std::size_t to_bytes(ncclDataType_t type);  // 0: not known
// to = reduction of the parts of all ranks; in an order that differs from element to element, as in
// a ring, but is the same for all ranks.
void reduce(const Collective& what, const std::vector<std::vector<char>>& parts, void* to);

}  // namespace fake
