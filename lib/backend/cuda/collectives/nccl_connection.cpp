#include "backend/cuda/collectives/nccl_connection.h"

#include <condition_variable>
#include <mutex>

#include "backend/cuda/collectives/nccl.h"
#include "backend/cuda/runtime.h"

namespace trainer::backend::cuda {
namespace {

// NCCL frees the communicator while it aborts it. The abort therefore waits this long for calls in
// progress. A call that takes longer waits for other ranks, and only the abort ends it.
constexpr std::chrono::seconds kCallLimit(1);
// The destructor waits this long for the end of the abort.
constexpr std::chrono::seconds kAbortLimit(30);

}  // namespace

struct NcclConnection::State {
  std::mutex mutex;
  std::condition_variable changed;
  std::optional<ncclResult_t> result;  // the result of the initialisation
  ncclComm_t comm = nullptr;
  int uses = 0;
  bool is_aborted = false;  // abort() was called
  bool has_ended = false;   // the thread does nothing more
};

NcclConnection::NcclConnection(const ncclUniqueId& id, const Rank& rank)
    : state_(std::make_shared<State>()), thread_(&NcclConnection::run, state_, id, rank) {}

NcclConnection::~NcclConnection() {
  abort();
  bool ended = false;
  {
    std::unique_lock lock(state_->mutex);
    ended = state_->result.has_value() &&
            state_->changed.wait_for(lock, kAbortLimit, [this] { return state_->has_ended; });
  }
  ended ? thread_.join() : thread_.detach();
}

void NcclConnection::run(const std::shared_ptr<State>& state, ncclUniqueId id, const Rank& rank) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 1;
  ncclComm_t comm = nullptr;
  ncclResult_t result = ncclUnhandledCudaError;
  // NCCL would create a context on GPU 0 for a thread that has chosen no device.
  if (cudaSetDevice(rank.device) == cudaSuccess) {
    result = nccl().init_rank(&comm, rank.size, id, rank.number, &config);
  }
  std::unique_lock lock(state->mutex);
  state->result = result;
  state->comm = comm;
  state->changed.notify_all();
  state->changed.wait(lock, [&state] { return state->is_aborted; });
  state->changed.wait_for(lock, kCallLimit, [&state] { return state->uses == 0; });
  lock.unlock();
  if (comm != nullptr) nccl().abort(comm);
  lock.lock();
  state->has_ended = true;
  state->changed.notify_all();
}

std::optional<ncclResult_t> NcclConnection::wait_until_connected(
    std::chrono::milliseconds limit) const {
  std::unique_lock lock(state_->mutex);
  state_->changed.wait_for(lock, limit,
                           [this] { return state_->result.has_value() || state_->is_aborted; });
  return state_->is_aborted ? std::nullopt : state_->result;
}

void NcclConnection::abort() noexcept {
  const std::lock_guard lock(state_->mutex);
  state_->is_aborted = true;
  state_->changed.notify_all();
}

NcclConnection::Use::Use(NcclConnection& connection) : connection_(connection) {
  State& state = *connection_.state_;
  const std::lock_guard lock(state.mutex);
  ++state.uses;
  if (!state.is_aborted && state.result == ncclSuccess) comm_ = state.comm;
}

NcclConnection::Use::~Use() {
  State& state = *connection_.state_;
  const std::lock_guard lock(state.mutex);
  --state.uses;
  state.changed.notify_all();
}

}  // namespace trainer::backend::cuda
