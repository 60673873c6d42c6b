// Collectives: operations in streams that end when all ranks have begun theirs.
//
// Follows the NCCL User Guide 2.28, "Collective Communication Functions" (ncclAllReduce,
// ncclBroadcast, ncclAllGather and their in-place forms), "CUDA Stream Semantics" (a call returns
// when the operation is in the stream), "Using NCCL with CUDA Graphs" ("whether an operation launch
// is graph-captured is considered a collective property of that operation and therefore must be
// uniform over all ranks"; a launch of a graph is collective too, and "each of those ranks must be
// using the graph derived from that collective capture") and "Collective Operations" (all ranks
// call with the same count and type). Collectives of one communicator pair up by the
// order in which they begin on the device. A collective is two operations: the first takes the
// input and leaves the output undefined, the second writes it. Calls that do not fit each other
// hang or corrupt memory on a device; here they are reported and end all work.
//
// Boards whose peer access does not work end no sum (NVIDIA/nccl-tests#117: cudaStreamQuery returns
// cudaErrorNotReady for ever) or return wrong numbers without an error (NVIDIA/nccl#1199): kEndless
// and kWrong.
#include <algorithm>
#include <cstring>

#include "cuda/fake_runtime/nccl/state.h"

namespace fake {
namespace {

using Kind = Collective::Kind;

const char* name_of(Kind kind) {
  switch (kind) {
    case Kind::kAllReduce:
      return "all-reduce";
    case Kind::kBroadcast:
      return "broadcast";
    default:
      return "all-gather";
  }
}

std::string describe(const Collective& c) {
  std::string text = std::string(name_of(c.kind)) + " of " + std::to_string(c.count) +
                     " elements of type " + std::to_string(c.type);
  if (c.kind == Kind::kAllReduce) text += " by operation " + std::to_string(c.op);
  if (c.kind == Kind::kBroadcast) text += " from rank " + std::to_string(c.root);
  return text;
}

bool is_same_call(const Collective& a, const Collective& b) {
  return a.kind == b.kind && a.count == b.count && a.type == b.type && a.op == b.op &&
         a.root == b.root;
}

std::size_t input_bytes(const Collective& c) { return c.count * to_bytes(c.type); }
std::size_t output_bytes(const Collective& c, int ranks) {
  return input_bytes(c) * (c.kind == Kind::kAllGather ? static_cast<std::size_t>(ranks) : 1);
}

// The calls that a rank's collective has begun and not ended; several when a graph holds it.
struct Progress {
  CommPtr comm;
  Collective what;
  // A graph may be launched any number of times.
  bool in_graph = false;
  std::size_t captured_as = 0;      // which of the communicator's captured calls this is; 0: none
  std::shared_ptr<Call> beginning;  // between prepare and complete of the first operation
  std::deque<std::shared_ptr<Call>> begun;
};
using ProgressPtr = std::shared_ptr<Progress>;

std::string describe(const Collective& what, std::size_t captured_as) {
  const std::string text = describe(what);
  if (captured_as == 0) return text;
  return text + ", captured as its number " + std::to_string(captured_as) + ",";
}

void report_mismatch(const Call& call, const Progress& p) {
  const std::string text = "rank " + std::to_string(p.comm->rank) + " calls " +
                           describe(p.what, p.captured_as) + " where rank " +
                           std::to_string(call.first_rank) + " calls " +
                           describe(call.what, call.captured_as);
  p.comm->error = nccl_error(ncclInvalidUsage, text);
  make_sticky(world(), kAllDevices, cudaErrorLaunchFailure, text);
}

// Under the lock: finds the call that this rank's next one pairs up with.
void prepare(Progress& p) {
  ncclComm& comm = *p.comm;
  if (comm.aborted) return;
  const std::size_t number = comm.arrivals++;
  auto& call = comm.group->calls[number];
  if (!call) {
    call = std::make_shared<Call>();
    call->number = number;
    call->what = p.what;
    call->first_rank = comm.rank;
    call->captured_as = p.captured_as;
    call->parts.resize(static_cast<std::size_t>(comm.group->size));
  }
  if (!is_same_call(call->what, p.what) || call->captured_as != p.captured_as) {
    report_mismatch(*call, p);
  }
  p.beginning = call;
}

// Acts for the stream: takes the input, and leaves the output undefined.
void begin_collective(const Progress& p) {
  if (!p.beginning) return;
  const Collective& c = p.what;
  const bool has_input = c.kind != Kind::kBroadcast || c.root == p.comm->rank;
  if (has_input) {
    const char* from = static_cast<const char*>(c.from);
    p.beginning->parts[static_cast<std::size_t>(p.comm->rank)].assign(from, from + input_bytes(c));
  }
  std::memset(c.to, 0xFF, output_bytes(c, p.comm->group->size));
  p.beginning->all_arrived.release();
}

void complete_begin(Progress& p) {
  if (!p.in_graph) --p.comm->unfinished;
  if (!p.beginning) return;
  CommGroup& group = *p.comm->group;
  p.beginning->arrived.insert(p.comm->rank);
  p.beginning->since = std::max(p.beginning->since, running_since);
  if (group.mailbox) {
    const auto& mine = p.beginning->parts[static_cast<std::size_t>(p.comm->rank)];
    group.mailbox->give(p.beginning->number, p.comm->rank, describe(p.what, p.captured_as), mine);
  }
  if (p.beginning->arrived.size() == group.ranks_here()) {
    std::erase_if(group.calls, [&p](const auto& entry) { return entry.second == p.beginning; });
  }
  p.begun.push_back(std::move(p.beginning));
}

bool has_all_ranks(const Progress& p) {
  if (p.comm->aborted) return true;
  if (p.what.fault == kEndless) return false;
  if (p.begun.empty()) return true;
  Call& call = *p.begun.front();
  p.comm->group->collect(call);
  return call.arrived.size() == call.parts.size();
}

std::string missing_ranks(const Progress& p) {
  std::string text = "rank";
  if (p.begun.empty()) return text;
  const Call& call = *p.begun.front();
  for (int r = 0; r < p.comm->group->size; ++r) {
    if (call.arrived.count(r) == 0) text += " " + std::to_string(r);
  }
  return text;
}

// Acts for the stream: writes the output.
void end_collective(const Progress& p) {
  if (p.comm->aborted || p.begun.empty()) return;
  Call& call = *p.begun.front();
  const Collective& c = p.what;
  call.all_arrived.acquire();
  char* to = static_cast<char*>(c.to);
  if (c.kind == Kind::kAllReduce) {
    reduce(c, call.parts, to);
  } else if (c.kind == Kind::kBroadcast) {
    std::memcpy(to, call.parts[static_cast<std::size_t>(c.root)].data(), input_bytes(c));
  } else {
    for (const std::vector<char>& part : call.parts) {
      std::memcpy(to, part.data(), part.size());
      to += part.size();
    }
  }
  if (c.fault == kWrong) std::memset(c.to, 0, output_bytes(c, p.comm->group->size) / 2);
}

void complete_end(Progress& p) {
  if (!p.in_graph) --p.comm->unfinished;
  if (!p.begun.empty()) p.begun.pop_front();
}

ncclResult_t check(const World& w, const ncclComm& comm, const Collective& c) {
  const bool is_grouped = in_group();
  if (!comm.group->is_complete()) {
    return nccl_error(ncclInvalidUsage, "the communicator is not ready: ncclInProgress");
  }
  if (!is_grouped && !comm.deferred.empty()) {
    return nccl_error(ncclInvalidUsage,
                      "Attempt to use communicator before the previous operation returned "
                      "ncclSuccess");
  }
  const int ranks = comm.group->size;
  if (to_bytes(c.type) == 0 || c.op < ncclSum || c.op >= ncclNumOps || c.root < 0 ||
      c.root >= ranks) {
    return nccl_error(ncclInvalidArgument, "wrong arguments of " + describe(c));
  }
  const auto is_mine = [&](const void* address, std::size_t bytes) {
    const Allocation* a = find_device_memory(w, address, bytes);
    return a && a->device == comm.device;
  };
  const bool has_input = c.kind != Kind::kBroadcast || c.root == comm.rank;
  if ((has_input && !is_mine(c.from, input_bytes(c))) || !is_mine(c.to, output_bytes(c, ranks))) {
    return nccl_error(
        ncclInvalidArgument,
        "a buffer of " + describe(c) + " is not memory of device " + std::to_string(comm.device));
  }
  return ncclSuccess;
}

// Puts one of the two operations of a collective into the stream.
ncclResult_t submit_work(Lock& lock, const ProgressPtr& p, cudaStream_t handle,
                         std::shared_ptr<Work> work) {
  CUstream_st* stream = find_stream(world(), handle);
  cudaError_t status = cudaErrorInvalidResourceHandle;
  if (stream && stream->device == p->comm->device) {
    p->in_graph = stream->capture != nullptr;
    if (p->in_graph) work->held = p->comm->graphs;
    if (p->in_graph && p->captured_as == 0) p->captured_as = ++p->comm->captures;
    if (!p->in_graph) ++p->comm->unfinished;
    status = submit(lock, *stream, std::move(work));
  }
  if (end(status) == cudaSuccess) return ncclSuccess;
  return nccl_error(ncclUnhandledCudaError,
                    std::string("Cuda failure '") + cudaGetErrorString(status) + "'");
}

ncclResult_t enqueue_collective(Lock& lock, const CommPtr& comm, const Collective& what,
                                cudaStream_t stream) {
  const auto p = std::make_shared<Progress>();
  p->comm = comm;
  p->what = what;
  const std::string name = describe(what) + " on rank " + std::to_string(comm->rank);
  auto first = std::make_shared<Work>();
  first->name = "begin of " + name;
  first->device = comm->device;
  first->prepare = [p] { prepare(*p); };
  first->run = [p] { begin_collective(*p); };
  first->complete = [p] { complete_begin(*p); };
  if (const ncclResult_t e = submit_work(lock, p, stream, std::move(first))) return e;
  auto second = std::make_shared<Work>();
  second->name = name;
  second->device = comm->device;
  second->seconds = 1e-5 + static_cast<double>(input_bytes(what)) / 100e9;
  second->not_before = [p] { return p->begun.empty() ? 0 : p->begun.front()->since; };
  second->ready = [p] { return has_all_ranks(*p); };
  second->missing = [p] { return missing_ranks(*p); };
  second->run = [p] { end_collective(*p); };
  second->complete = [p] { complete_end(*p); };
  return submit_work(lock, p, stream, std::move(second));
}

ncclResult_t call(const char* function, Collective what, ncclComm_t handle, cudaStream_t stream) {
  World& w = world();
  Lock lock(w.mutex);
  const int injected = injected_failure(w, function);
  if (injected == kWrong || injected == kEndless) {
    what.fault = injected;
  } else if (injected != 0) {
    return nccl_error(static_cast<ncclResult_t>(injected),
                      std::string(function) + " fails as the test asked for");
  }
  if (sticky_error(w, current_device()) != cudaSuccess) return ncclUnhandledCudaError;
  const CommPtr comm = find_communicator(handle);
  if (!comm) return nccl_error(ncclInvalidArgument, "not a communicator");
  if (what.count == 0) return ncclSuccess;
  if (const ncclResult_t e = check(w, *comm, what)) return e;
  if (const ncclResult_t e = connect(lock, comm)) return e;
  const CUstream_st* at_call = find_stream(w, stream);
  const auto capture = at_call ? at_call->capture : nullptr;
  return run_or_defer(lock, comm, [comm, what, stream, capture](Lock& held) {
    const CUstream_st* now = find_stream(world(), stream);
    if (now && now->capture != capture) {
      const std::string text =
          "a capture began or ended while " + describe(what) + " was still in progress";
      make_sticky(world(), kAllDevices, cudaErrorStreamCaptureInvalidated, text);
      return nccl_error(ncclUnhandledCudaError, text);
    }
    return enqueue_collective(held, comm, what, stream);
  });
}

}  // namespace

void CommGroup::collect(Call& call) const {
  for (int rank = 0; mailbox && rank < size; ++rank) {
    if (devices.at(rank) != kOtherProcess || call.arrived.count(rank) > 0) continue;
    std::optional<Mailbox::Gift> gift = mailbox->taken(call.number, rank);
    if (!gift) continue;
    const std::string mine = describe(call.what, call.captured_as);
    if (gift->what != mine) {
      make_sticky(world(), kAllDevices, cudaErrorLaunchFailure,
                  "rank " + std::to_string(rank) + " calls " + gift->what + " where rank " +
                      std::to_string(call.first_rank) + " calls " + mine);
    }
    call.parts[static_cast<std::size_t>(rank)] = std::move(gift->values);
    call.arrived.insert(rank);
  }
}

}  // namespace fake

extern "C" {

ncclResult_t ncclAllReduce(const void* from, void* to, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return fake::call("ncclAllReduce", {fake::Kind::kAllReduce, from, to, count, type, op, 0}, comm,
                    stream);
}

ncclResult_t ncclBroadcast(const void* from, void* to, size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream) {
  return fake::call("ncclBroadcast", {fake::Kind::kBroadcast, from, to, count, type, ncclSum, root},
                    comm, stream);
}

ncclResult_t ncclAllGather(const void* from, void* to, size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  return fake::call("ncclAllGather", {fake::Kind::kAllGather, from, to, count, type, ncclSum, 0},
                    comm, stream);
}

}  // extern "C"
