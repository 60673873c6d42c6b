// Sums over ranks with a device each, by NCCL.
// Reasons: lib/decisions/backend.md#nccl-blocks-and-is-aborted-from-another-thread.
#include <algorithm>
#include <cstring>
#include <mutex>
#include <optional>
#include <span>

#include "backend/cuda/collectives/collective.h"
#include "backend/cuda/collectives/nccl.h"
#include "backend/cuda/collectives/nccl_connection.h"
#include "backend/cuda/collectives/rank_group.h"
#include "backend/cuda/collectives/silence_watch.h"
#include "base/error.h"

namespace trainer::backend::cuda {
namespace {

using Clock = std::chrono::steady_clock;

// Connections between many hosts take seconds, so this limit does not follow that of a sum.
constexpr std::chrono::milliseconds kConnectLimit = std::chrono::minutes(1);

std::string format_seconds(std::chrono::milliseconds time) {
  return concat(static_cast<double>(time.count()) / 1000, " s");
}

class NcclCollective final : public CudaCollective,
                             private GroupMember,
                             private PeerWatch::Watched {
 public:
  NcclCollective(RankGroup group, cluster::Communicator& ranks, std::chrono::milliseconds timeout);
  ~NcclCollective() override;

  int rank() const override { return group_.rank; }
  int size() const override { return group_.size(); }
  void all_reduce(float* values, std::int64_t count, cudaStream_t stream) override;
  void all_gather(const float* from, float* to, std::int64_t count, cudaStream_t stream) override;
  void check() override { group_.process->throw_if_failed(group_.rank); }
  bool capturable() const override { return true; }
  void begin_capture() override { capturing_ = true; }
  void end_capture() override { capturing_ = false; }
  void replay(cudaStream_t stream, const std::function<void()>& launch) override;
  void abort(const std::string& reason) noexcept override;

 private:
  // The reason why a call failed; empty if it succeeded.
  using Failure = std::string;

  void connect();
  // Makes a call in stream order, or ends the group.
  template <class Call>
  void enqueue(const char* name, cudaStream_t stream, const Call& call);
  // Makes a call of NCCL. It may wait for other ranks, so no lock is held.
  template <class Call>
  Failure call_nccl(const char* name, const Call& call);
  template <class Call>
  Failure capture_call(const Call& call);
  Failure describe_failure(const char* name, ncclResult_t status);
  Failure describe_silence() const;
  Failure find_failure();
  template <class Launch>
  Failure launch_in_window(cudaStream_t stream, const Launch& launch);
  template <class Launch>
  Failure launch_watched(cudaStream_t stream, const Launch& launch);
  Failure wait_for_launches(bool (LaunchWindow::*wait)(LaunchWindow::TimePoint));
  void end_group(const Failure& failure);
  [[noreturn]] void fail(const Failure& failure);
  std::string diagnose_peers();
  void stop() noexcept override { connection_->abort(); }
  void look() noexcept override;
  std::string who() const { return group_.own_name() + named_work(); }

  RankGroup group_;
  std::unique_ptr<cluster::Communicator> peers_;  // for the time when the group has failed
  std::chrono::milliseconds timeout_;
  bool capturing_ = false;  // used only by the thread that makes the calls
  SilenceWatch silence_;
  std::mutex failing_;  // held by end_group(), so that only one thread asks the other hosts
  std::mutex capture_mutex_;
  std::optional<Clock::time_point> capture_call_since_;  // set while a call is captured
  std::unique_ptr<NcclConnection> connection_;
};

NcclCollective::NcclCollective(RankGroup group, cluster::Communicator& ranks,
                               std::chrono::milliseconds timeout)
    : group_(std::move(group)), peers_(ranks.duplicate()), timeout_(timeout) {
  ncclUniqueId id;
  std::memset(&id, 0, sizeof id);
  const NcclApi& api = nccl();  // on all ranks, so that each reports a library that is missing
  if (group_.rank == 0) {
    const ncclResult_t status = api.get_unique_id(&id);
    if (status != ncclSuccess) throw DeviceError(describe_failure("ncclGetUniqueId", status));
  }
  ranks.broadcast(std::as_writable_bytes(std::span(&id, 1)), 0);
  const int device = group_.places[group_.rank].device;
  connection_ = std::make_unique<NcclConnection>(
      id, NcclConnection::Rank{device, group_.rank, group_.size()});
  group_.process->join(*this);
  try {
    connect();
  } catch (...) {
    group_.process->leave(*this);
    throw;
  }
  if (group_.size() > 1) group_.process->peer_watch().add(*this);
}

// The communicator ends last, when neither the watch nor another rank can use this rank any more.
NcclCollective::~NcclCollective() {
  leave_waiters();
  group_.process->peer_watch().remove(*this);
  group_.process->leave(*this);
}

void NcclCollective::connect() {
  // A rank that failed before this rank joined the group has not stopped this rank.
  if (group_.process->failed()) connection_->abort();
  const std::chrono::milliseconds limit = std::max(timeout_, kConnectLimit);
  const std::optional<ncclResult_t> result = connection_->wait_until_connected(limit);
  if (result == ncclSuccess) return;
  fail(result ? describe_failure("ncclCommInitRankConfig", *result)
              : concat(who(), ": ncclCommInitRankConfig has waited for other ranks for ",
                       format_seconds(limit)));
}

NcclCollective::Failure NcclCollective::describe_failure(const char* name, ncclResult_t status) {
  const char* last = nccl().last_error(nullptr);  // NCCL ignores the communicator
  return concat(who(), ": ", name, ": ", nccl().error_string(status),
                last == nullptr || *last == 0 ? "" : ": ", last == nullptr ? "" : last);
}

template <class Call>
NcclCollective::Failure NcclCollective::call_nccl(const char* name, const Call& call) {
  const NcclConnection::Use use(*connection_);
  if (use.comm() == nullptr) return concat(who(), ": ", name, " after the group has ended");
  const ncclResult_t status = call(use.comm());
  return status == ncclSuccess ? "" : describe_failure(name, status);
}

// A captured sum runs with its graph, whose launches SilenceWatch times. This times the capturing
// call itself, which may wait for other ranks too.
template <class Call>
NcclCollective::Failure NcclCollective::capture_call(const Call& call) {
  const auto set_since = [this](std::optional<Clock::time_point> since) {
    const std::lock_guard lock(capture_mutex_);
    capture_call_since_ = since;
  };
  set_since(Clock::now());
  Failure failure = call();
  set_since(std::nullopt);
  return failure;
}

template <class Call>
void NcclCollective::enqueue(const char* name, cudaStream_t stream, const Call& call) {
  group_.process->throw_if_failed(group_.rank);
  const auto make = [&] { return call_nccl(name, call); };
  if (!capturing_) group_.process->count_call(group_.rank);
  const Failure failure = capturing_ ? capture_call(make) : launch_in_window(stream, make);
  if (!failure.empty()) fail(failure);
}

// Makes a launch while no rank of this process makes a memory call.
template <class Launch>
NcclCollective::Failure NcclCollective::launch_in_window(cudaStream_t stream,
                                                         const Launch& launch) {
  Failure failure = wait_for_launches(&LaunchWindow::open);
  if (!failure.empty()) return failure;
  try {
    failure = launch_watched(stream, launch);
  } catch (const std::exception& error) {
    abort(error.what());  // ends the window, for which memory calls wait
    throw;
  }
  return failure.empty() ? wait_for_launches(&LaunchWindow::close) : failure;
}

// A launch may block until the other ranks have launched. No lock is held meanwhile, because the
// thread that ends the launch would wait for the lock.
template <class Launch>
NcclCollective::Failure NcclCollective::launch_watched(cudaStream_t stream, const Launch& launch) {
  silence_.begin(stream);
  Failure failure = launch();
  if (failure.empty()) silence_.end(stream);
  return failure;
}

// Opens or closes the window in which the ranks of this process launch.
NcclCollective::Failure NcclCollective::wait_for_launches(
    bool (LaunchWindow::*wait)(LaunchWindow::TimePoint)) {
  if ((group_.process->launch_window().*wait)(Clock::now() + timeout_)) return "";
  group_.process->throw_if_failed(group_.rank);
  return describe_silence();
}

void NcclCollective::replay(cudaStream_t stream, const std::function<void()>& launch) {
  group_.process->throw_if_failed(group_.rank);
  group_.process->count_call(group_.rank);
  const Failure failure = launch_in_window(stream, [&launch] {
    launch();
    return Failure();
  });
  if (!failure.empty()) fail(failure);
}

void NcclCollective::all_reduce(float* values, std::int64_t count, cudaStream_t stream) {
  if (count == 0) return;
  enqueue("ncclAllReduce", stream, [&](ncclComm_t comm) {
    return nccl().all_reduce(values, values, count, ncclFloat32, ncclSum, comm, stream);
  });
}

void NcclCollective::all_gather(const float* from, float* to, std::int64_t count,
                                cudaStream_t stream) {
  if (count == 0) return;
  enqueue("ncclAllGather", stream, [&](ncclComm_t comm) {
    return nccl().all_gather(from, to, count, ncclFloat32, comm, stream);
  });
}

NcclCollective::Failure NcclCollective::describe_silence() const {
  return concat(who(), ": the sum has waited for other ranks for ", format_seconds(timeout_),
                ", the limit of parallel.timeout");
}

NcclCollective::Failure NcclCollective::find_failure() {
  {
    const std::lock_guard lock(capture_mutex_);
    if (capture_call_since_ && Clock::now() - *capture_call_since_ > timeout_) {
      return describe_silence();
    }
  }
  if (silence_.silence() > timeout_) return describe_silence();
  const NcclConnection::Use use(*connection_);
  if (use.comm() == nullptr) return "";
  ncclResult_t status = ncclSuccess;
  const ncclResult_t asked = nccl().get_async_error(use.comm(), &status);
  if (asked != ncclSuccess) status = asked;
  // A call of another thread may be in progress.
  if (status == ncclSuccess || status == ncclInProgress) return "";
  return describe_failure("ncclCommGetAsyncError", status);
}

void NcclCollective::look() noexcept {
  if (group_.process->failed()) return;
  try {
    const DeviceGuard guard(group_.places[group_.rank].device);
    const Failure failure = find_failure();
    if (!failure.empty()) end_group(failure);
  } catch (const std::exception& error) {
    abort(error.what());
  }
}

// Asks the hosts of the ranks that the device waits for, and returns what they answered.
std::string NcclCollective::diagnose_peers() {
  if (const std::string late = group_.late_ranks(); !late.empty()) return "; " + late;
  int local = 0;
  for (int other = 0; other < size(); ++other) local += group_.is_local(other) ? 1 : 0;
  // With several ranks here the call would wait for all of them, also for one that hangs.
  if (local > 1) return "";
  try {
    peers_->barrier();
  } catch (const PeerError& error) {
    return concat("; ", error.what());
  }
  return "; the hosts of all ranks answer";
}

void NcclCollective::end_group(const Failure& failure) {
  const std::lock_guard lock(failing_);
  if (!group_.process->failed()) abort(failure + diagnose_peers());
}

void NcclCollective::fail(const Failure& failure) {
  end_group(failure);
  group_.process->throw_if_failed(group_.rank);
  throw PeerError(failure);  // not reached: the group has failed
}

void NcclCollective::abort(const std::string& reason) noexcept {
  group_.process->fail(group_.rank, reason);
  peers_->abort(reason);
}

}  // namespace

std::unique_ptr<CudaCollective> make_nccl_collective(RankGroup group, cluster::Communicator& ranks,
                                                     std::chrono::milliseconds timeout) {
  return std::make_unique<NcclCollective>(std::move(group), ranks, timeout);
}

}  // namespace trainer::backend::cuda
