// Communicators: made by all ranks together, ended by all together or by an abort.
//
// Follows the NCCL User Guide 2.28, "Communicator Creation and Management Functions"
// (ncclCommInitRankConfig; ncclCommDestroy, "intra-node collective call, which all ranks on the
// same node should call to avoid a hang"; ncclCommAbort; ncclCommGetAsyncError), "Creating a
// Communicator" (a device is in a communicator once; config.blocking), "Error handling and
// communicator abort", "Fault Tolerance" and "Group Calls" (of which only this is left out: a group
// whose calls of one communicator name several streams does not order these streams). Where the
// guide leaves open whether ranks notice another's abort, they do not. Destroying and aborting
// return when the graphs that hold calls of the communicator are gone: NVIDIA's "CUDA Graph Best
// Practice for PyTorch", "NCCL Communicator Destruction with Active CUDA Graphs". The last abort
// among the ranks of a process also waits for the graphs of the others: NCCL 2.28.9 src/init.cc,
// commReclaim, which then destroys all of them. The initialisation of a communicator that blocks
// ends when all ranks have come, and in no other way: the guide lets only one that does not block
// be aborted meanwhile. A first call that blocks connects the ranks (Environment Variables,
// NCCL_RUNTIME_CONNECT) and ends by an abort on another thread. The connection takes memory of the
// device until the communicator is destroyed ("Memory", NCCL_BUFFSIZE).
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "cuda/fake_runtime/nccl/state.h"

namespace fake {
namespace {

struct Communicators {
  std::map<std::string, std::shared_ptr<CommGroup>> groups;  // by unique id
  std::map<ncclComm_t, CommPtr> handles;
  unsigned ids = 0;
  std::string last_error;
};
Communicators& communicators() {
  static auto& all = *new Communicators;
  return all;
}

// What a thread has called since ncclGroupStart.
struct ThreadGroup {
  int depth = 0;
  bool any_without_blocking = false;
  using Actions = std::vector<std::function<ncclResult_t(Lock&)>>;
  // Done one list after the other at the end: what goes into streams, waits for these streams and
  // for other ranks to join, waits for other ranks to leave.
  Actions actions, waits, farewells;
};
thread_local ThreadGroup thread_group;

ncclResult_t now_or_in_group(Lock& lock, ThreadGroup::Actions& list,
                             std::function<ncclResult_t(Lock&)> action) {
  if (thread_group.depth == 0) return action(lock);
  list.push_back(std::move(action));
  return ncclSuccess;
}

ncclResult_t failure(World& w, const char* function) {
  const auto injected = static_cast<ncclResult_t>(injected_failure(w, function));
  if (injected != ncclSuccess) {
    return nccl_error(injected, std::string(function) + " fails as the test asked for");
  }
  const cudaError_t sticky = sticky_error(w, current_device());
  if (sticky == cudaSuccess) return ncclSuccess;
  return nccl_error(ncclUnhandledCudaError,
                    std::string("CUDA failed before: ") + cudaGetErrorName(sticky));
}

ncclResult_t join(CommGroup& group, int size, int rank) {
  if (group.size == 0) group.size = size;
  if (size != group.size || group.devices.count(rank) != 0) {
    return nccl_error(ncclInvalidArgument, "rank " + std::to_string(rank) + " of " +
                                               std::to_string(size) +
                                               " does not fit the other ranks of its id");
  }
  for (const auto& [other, device] : group.devices) {
    if (device != current_device()) continue;
    return nccl_error(ncclInvalidUsage, "Duplicate GPU detected : rank " + std::to_string(rank) +
                                            " and rank " + std::to_string(other) +
                                            " both on CUDA device " + std::to_string(device));
  }
  group.devices[rank] = current_device();
  if (group.mailbox) group.mailbox->join(rank);
  return ncclSuccess;
}

// The group of an id that another process has drawn; null where processes share nothing.
std::shared_ptr<CommGroup> make_group(const ncclUniqueId& id) {
  auto mailbox = Mailbox::open(id.internal);
  if (!mailbox) return nullptr;
  auto group = std::make_shared<CommGroup>();
  group->mailbox = std::move(mailbox);
  return group;
}

ncclResult_t init(Lock& lock, ncclComm_t* comm, int size, const ncclUniqueId& id, int rank,
                  const ncclConfig_t* config) {
  World& w = world();
  if (const ncclResult_t e = failure(w, "ncclCommInitRankConfig")) return e;
  constexpr unsigned kMagic = 0xcafebeef;
  if (!comm || size < 1 || rank < 0 || rank >= size || (config && config->magic != kMagic)) {
    return nccl_error(ncclInvalidArgument, "ncclCommInitRankConfig: wrong arguments");
  }
  std::shared_ptr<CommGroup>& group = communicators().groups[id.internal];
  if (!group) group = make_group(id);
  if (!group) {
    communicators().groups.erase(id.internal);
    return nccl_error(ncclSystemError,
                      "the unique id is not of this process; the fake joins threads only, unless "
                      "TRAINER_FAKE_NCCL_FOLDER names a folder for all processes");
  }
  if (const ncclResult_t e = join(*group, size, rank)) return e;
  auto made = std::make_shared<ncclComm>();
  made->rank = rank;
  made->device = current_device();
  made->blocking = !config || config->blocking != 0;
  made->group = group;
  group->communicators.push_back(made);
  *comm = made.get();
  communicators().handles[made.get()] = made;
  w.changed();
  made->returned = !made->blocking || thread_group.depth > 0;
  if (!made->blocking) return ncclInProgress;
  return now_or_in_group(lock, thread_group.waits, [made](Lock& held) {
    const unsigned generation = world().generation;
    run_patiently(held, made->device, [made, generation] {
      return made->group->is_complete() || world().generation != generation;
    });
    if (world().generation != generation) return ncclInternalError;
    made->returned = true;
    if (sticky_error(world(), made->device) == cudaSuccess) return ncclSuccess;
    return nccl_error(ncclUnhandledCudaError, "CUDA failed while ranks connected");
  });
}

void remove(const CommPtr& comm) {
  const Unwatched unwatched;
  comm->group->left.insert(comm->rank);
  communicators().handles.erase(comm.get());
  world().changed();
}

ncclResult_t destroy(Lock& lock, ncclComm_t handle) {
  const ncclResult_t before = failure(world(), "ncclCommDestroy");
  const CommPtr comm = find_communicator(handle);
  if (!comm) return nccl_error(ncclInvalidArgument, "ncclCommDestroy: not a communicator");
  if (before == ncclUnhandledCudaError) {
    remove(comm);
    return before;
  }
  if (before != ncclSuccess) return before;
  const auto leave = [comm](Lock& held) {
    const ncclResult_t flushed = wait_for_ranks(
        held, [comm] { return (comm->unfinished == 0 || comm->aborted) && !comm->is_in_graphs(); });
    remove(comm);
    return flushed;
  };
  if (const ncclResult_t e = now_or_in_group(lock, thread_group.waits, leave)) return e;
  return now_or_in_group(lock, thread_group.farewells, [comm](Lock& held) {
    return wait_for_ranks(held, [comm] {
      return comm->aborted || comm->group->left.size() == comm->group->devices.size();
    });
  });
}

ncclResult_t abort(Lock& lock, ncclComm_t handle) {
  World& w = world();
  const auto injected = static_cast<ncclResult_t>(injected_failure(w, "ncclCommAbort"));
  const CommPtr comm = find_communicator(handle);
  if (!comm) return nccl_error(ncclInvalidArgument, "ncclCommAbort: not a communicator");
  comm->aborted = true;
  comm->deferred.clear();
  remove(comm);
  const bool last = comm->group->left.size() == comm->group->devices.size();
  // Who destroys the graphs may have other things to do first.
  run_patiently(lock, comm->device, [&comm, last] {
    return last ? !comm->group->any_in_graphs() : !comm->is_in_graphs();
  });
  return injected;
}

ncclResult_t async_error(Lock& lock, ncclComm_t handle, ncclResult_t* error) {
  World& w = world();
  const auto injected = static_cast<ncclResult_t>(injected_failure(w, "ncclCommGetAsyncError"));
  const CommPtr comm = find_communicator(handle);
  if (!comm || !error) return nccl_error(ncclInvalidArgument, "ncclCommGetAsyncError: arguments");
  if (injected != ncclSuccess) comm->error = nccl_error(injected, "a test asked for this failure");
  const cudaError_t sticky = sticky_error(w, comm->device);
  if (sticky != cudaSuccess && comm->error == ncclSuccess) comm->error = ncclUnhandledCudaError;
  *error = comm->error;
  if (comm->error != ncclSuccess) return ncclSuccess;
  const auto is_complete = [&comm] { return comm->group->is_complete(); };
  if (!is_complete()) {
    if (run_some(lock, comm->device, is_complete) != cudaSuccess) comm->error = ncclInternalError;
    *error = comm->error == ncclSuccess ? ncclInProgress : comm->error;
    return ncclSuccess;
  }
  if (comm->polls_left > 0 && --comm->polls_left > 0) {
    *error = ncclInProgress;
    return ncclSuccess;
  }
  for (const auto& action : std::exchange(comm->deferred, {})) {
    if (const ncclResult_t e = action(lock)) comm->error = e;
  }
  *error = comm->error;
  return ncclSuccess;
}

ncclResult_t end_group(Lock& lock) {
  if (const ncclResult_t e = failure(world(), "ncclGroupEnd")) return e;
  if (thread_group.depth == 0) {
    return nccl_error(ncclInvalidUsage, "ncclGroupEnd: not in a group call.");
  }
  if (--thread_group.depth > 0) return ncclSuccess;
  const ThreadGroup group = std::exchange(thread_group, {});
  for (const auto* list : {&group.actions, &group.waits, &group.farewells}) {
    for (const auto& action : *list) {
      if (const ncclResult_t e = action(lock)) return e;
    }
  }
  return group.any_without_blocking ? ncclInProgress : ncclSuccess;
}

// Defers an action of one communicator, in the order of the calls.
ncclResult_t defer_to_polls(World& w, const CommPtr& comm,
                            std::function<ncclResult_t(Lock&)> action) {
  comm->deferred.push_back(std::move(action));
  if (comm->polls_left == 0) comm->polls_left = 1 + static_cast<int>(w.random() % 2);
  return ncclInProgress;
}

}  // namespace

bool CommGroup::is_complete() {
  for (int rank = 0; mailbox && rank < size; ++rank) {
    if (devices.count(rank) > 0 || !mailbox->has_joined(rank)) continue;
    devices[rank] = kOtherProcess;
    left.insert(rank);  // nobody here waits for it to leave
  }
  return devices.size() == static_cast<std::size_t>(size);
}

std::size_t CommGroup::ranks_here() const {
  return static_cast<std::size_t>(std::count_if(
      devices.begin(), devices.end(), [](const auto& d) { return d.second != kOtherProcess; }));
}

bool CommGroup::any_in_graphs() const {
  return std::any_of(communicators.begin(), communicators.end(), [](const auto& weak) {
    const CommPtr comm = weak.lock();
    return comm && comm->is_in_graphs();
  });
}

std::set<int> peers(int device) {
  std::set<int> found;
  for (const auto& [id, group] : communicators().groups) {
    std::set<int> here;
    for (const auto& weak : group->communicators) {
      const CommPtr comm = weak.lock();
      if (comm && communicators().handles.contains(comm.get())) here.insert(comm->device);
    }
    if (here.size() > 1 && (device < 0 || here.contains(device))) found.merge(here);
  }
  return found;
}

int connected_ranks(int device) {
  const auto& handles = communicators().handles;
  return static_cast<int>(std::count_if(handles.begin(), handles.end(), [device](const auto& h) {
    return h.second->connected && h.second->device == device;
  }));
}

bool in_group() { return thread_group.depth > 0; }

CommPtr find_communicator(ncclComm_t comm) {
  const auto at = communicators().handles.find(comm);
  return at == communicators().handles.end() ? nullptr : at->second;
}

ncclResult_t nccl_error(ncclResult_t result, const std::string& message) {
  communicators().last_error = message;
  return result;
}

ncclResult_t wait_for_ranks(Lock& lock, const std::function<bool()>& condition) {
  if (run_until(lock, current_device(), condition) == cudaSuccess) return ncclSuccess;
  return nccl_error(ncclInternalError, "CUDA failed, or the other ranks do not come");
}

ncclResult_t connect(Lock& lock, const CommPtr& comm) {
  CommGroup& group = *comm->group;
  if (!comm->connected && free_bytes(world(), comm->device) < world().settings.connection_bytes) {
    return nccl_error(ncclUnhandledCudaError, "out of memory while ranks connected");
  }
  comm->connected = true;
  if (!world().settings.connects || group.mailbox || !comm->blocking || in_group()) {
    return ncclSuccess;
  }
  group.connecting.insert(comm->rank);
  world().changed();
  const ncclResult_t waited = wait_for_ranks(lock, [&comm, &group] {
    return comm->aborted || group.connecting.size() == static_cast<std::size_t>(group.size);
  });
  if (!comm->aborted) return waited;
  return nccl_error(ncclInternalError, "the communicator was aborted");
}

ncclResult_t run_or_defer(Lock& lock, const CommPtr& comm,
                          std::function<ncclResult_t(Lock&)> action) {
  if (thread_group.depth > 0) {
    if (comm->blocking) {
      thread_group.actions.push_back(std::move(action));
      return ncclSuccess;
    }
    thread_group.any_without_blocking = true;
  }
  return comm->blocking ? action(lock) : defer_to_polls(world(), comm, std::move(action));
}

std::size_t communicators_left() {
  const auto& handles = communicators().handles;
  return static_cast<std::size_t>(std::count_if(handles.begin(), handles.end(),
                                                [](const auto& h) { return h.second->returned; }));
}

void drop_all_communicators() {
  communicators().handles.clear();
  communicators().groups.clear();
  thread_group = {};
}

}  // namespace fake

extern "C" {

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  const fake::Lock lock(fake::world().mutex);
  if (const ncclResult_t e = fake::failure(fake::world(), "ncclGetUniqueId")) return e;
  if (!id) return ncclInvalidArgument;
  std::memset(id, 0, sizeof *id);
  auto& all = fake::communicators();
  std::snprintf(id->internal, sizeof id->internal, "fake-%d-%u", static_cast<int>(::getpid()),
                ++all.ids);
  auto group = std::make_shared<fake::CommGroup>();
  group->mailbox = fake::Mailbox::open(id->internal);
  all.groups[id->internal] = std::move(group);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int size, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  fake::Lock lock(fake::world().mutex);
  return fake::init(lock, comm, size, id, rank, config);
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  fake::Lock lock(fake::world().mutex);
  return fake::destroy(lock, comm);
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  fake::Lock lock(fake::world().mutex);
  return fake::abort(lock, comm);
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  fake::Lock lock(fake::world().mutex);
  return fake::async_error(lock, comm, error);
}

ncclResult_t ncclGroupStart() {
  const fake::Lock lock(fake::world().mutex);
  if (const ncclResult_t e = fake::failure(fake::world(), "ncclGroupStart")) return e;
  ++fake::thread_group.depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  fake::Lock lock(fake::world().mutex);
  return fake::end_group(lock);
}

ncclResult_t ncclGetVersion(int* version) {
  if (!version) return ncclInvalidArgument;
  const char* given = std::getenv("TRAINER_FAKE_NCCL_VERSION");
  *version = given != nullptr ? std::atoi(given) : NCCL_VERSION_CODE;
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error (run with NCCL_DEBUG=INFO for details)";
    case ncclSystemError:
      return "unhandled system error (run with NCCL_DEBUG=INFO for details)";
    case ncclInternalError:
      return "internal error - please report this issue to the NCCL developers";
    case ncclInvalidArgument:
      return "invalid argument (run with NCCL_DEBUG=WARN for details)";
    case ncclInvalidUsage:
      return "invalid usage (run with NCCL_DEBUG=WARN for details)";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInProgress:
      return "NCCL operation in progress";
    default:
      return "unknown result code";
  }
}

const char* ncclGetLastError(ncclComm_t) {
  const fake::Lock lock(fake::world().mutex);
  thread_local std::string message;
  message = fake::communicators().last_error;
  return message.c_str();
}

}  // extern "C"
