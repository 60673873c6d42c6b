#include "backend/cuda/collectives/nccl_collective.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <span>
#include <system_error>
#include <thread>

#include "backend/cuda/collectives/nccl.h"
#include "backend/cuda/collectives/silence_watch.h"
#include "base/error.h"

namespace trainer::backend::cuda {
namespace {

using Clock = std::chrono::steady_clock;

// The pause between two polls of a call that NCCL completes in the background.
constexpr std::chrono::microseconds kNcclPollPause(50);
// Connections between many hosts take seconds, so this limit does not follow that of a sum.
constexpr std::chrono::milliseconds kConnectLimit = std::chrono::minutes(1);

std::string format_seconds(std::chrono::milliseconds time) {
  return concat(static_cast<double>(time.count()) / 1000, " s");
}

class NcclCollective final : public CudaCollective, private GroupMember {
 public:
  NcclCollective(RankGroup group, cluster::Communicator& ranks, std::chrono::milliseconds timeout);
  ~NcclCollective() override;

  int rank() const override { return group_.rank; }
  int size() const override { return group_.size(); }
  void all_reduce(float* values, std::int64_t count, cudaStream_t stream) override;
  void all_gather(const float* from, float* to, std::int64_t count, cudaStream_t stream) override;
  void check() override;
  bool capturable() const override { return true; }
  void begin_capture() override { capturing_ = true; }
  void end_capture() override { capturing_ = false; }
  void replay(cudaStream_t stream, const std::function<void()>& launch) override;
  void abort(const std::string& reason) noexcept override;

 private:
  // The reason why a call failed; empty if it succeeded.
  using Failure = std::string;

  void connect(const ncclUniqueId& id);
  // Makes a call in stream order, or ends the group.
  template <class Call>
  void enqueue(const char* name, cudaStream_t stream, const Call& call);
  // Waits until a call is done that NCCL has taken. The lock is held.
  Failure settle(const char* name, ncclResult_t status, std::chrono::milliseconds limit);
  Failure describe_failure(const char* name, ncclResult_t status) const;
  Failure silence();
  Failure describe_silence() const;
  template <class Launch>
  Failure launch_in_window(const Launch& launch);
  Failure launch_graph(cudaStream_t stream, const std::function<void()>& launch);
  Failure wait_for_launches(bool (LaunchWindow::*wait)(LaunchWindow::TimePoint));
  [[noreturn]] void fail(const Failure& failure);
  std::string diagnose_peers();
  void stop() noexcept override;
  std::string who() const { return group_.own_name() + named_work(); }

  RankGroup group_;
  std::unique_ptr<cluster::Communicator> peers_;  // for the time when the group has failed
  std::chrono::milliseconds timeout_;
  bool capturing_ = false;
  std::mutex mutex_;  // of all that follows
  ncclComm_t comm_ = nullptr;
  SilenceWatch watch_;
  // ncclCommAbort ends the work on the device and then waits until the graphs that hold calls of
  // the communicator are destroyed, which the thread that has them does later.
  std::jthread aborting_;
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
  group_.process->join(*this);
  try {
    connect(id);
  } catch (...) {
    group_.process->leave(*this);
    stop();
    throw;
  }
}

NcclCollective::~NcclCollective() {
  leave_waiters();
  group_.process->leave(*this);
  // ncclCommDestroy would wait for the other ranks, whose destructors may be this thread's too.
  stop();
}

void NcclCollective::connect(const ncclUniqueId& id) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  Failure failure;
  {
    const std::lock_guard lock(mutex_);
    const ncclResult_t status = nccl().init_rank(&comm_, group_.size(), id, group_.rank, &config);
    failure = settle("ncclCommInitRankConfig", status, std::max(timeout_, kConnectLimit));
  }
  if (!failure.empty()) fail(failure);
}

NcclCollective::Failure NcclCollective::describe_failure(const char* name,
                                                         ncclResult_t status) const {
  const char* last = comm_ == nullptr ? nullptr : nccl().last_error(comm_);
  return concat(who(), ": ", name, ": ", nccl().error_string(status),
                last == nullptr || *last == 0 ? "" : ": ", last == nullptr ? "" : last);
}

NcclCollective::Failure NcclCollective::settle(const char* name, ncclResult_t status,
                                               std::chrono::milliseconds limit) {
  const Clock::time_point end = Clock::now() + limit;
  while (status == ncclInProgress) {
    if (group_.process->failed()) return "another rank has failed";
    std::this_thread::sleep_for(kNcclPollPause);
    const bool late = Clock::now() > end;  // before it asks: the answer may be that it is done
    const ncclResult_t asked = nccl().get_async_error(comm_, &status);
    if (asked != ncclSuccess) status = asked;
    if (late && status == ncclInProgress) {
      return concat(who(), ": ", name, " has waited for other ranks for ", format_seconds(limit));
    }
  }
  return status == ncclSuccess ? "" : describe_failure(name, status);
}

// A call that is captured is in the graph once it has settled; its time runs when the graph does.
template <class Call>
void NcclCollective::enqueue(const char* name, cudaStream_t stream, const Call& call) {
  group_.process->throw_if_failed(group_.rank);
  const auto make = [&] {
    const std::lock_guard lock(mutex_);
    if (comm_ == nullptr) return concat(who(), ": ", name, " after the group has ended");
    if (!capturing_) watch_.begin(stream);
    Failure failure = settle(name, call(comm_), timeout_);
    if (failure.empty() && !capturing_) watch_.end(stream);
    return failure;
  };
  if (!capturing_) group_.process->count_call(group_.rank);
  const Failure failure = capturing_ ? make() : launch_in_window(make);
  if (!failure.empty()) fail(failure);
}

// Makes a launch while no rank of this process makes a memory call.
template <class Launch>
NcclCollective::Failure NcclCollective::launch_in_window(const Launch& launch) {
  Failure failure = wait_for_launches(&LaunchWindow::open);
  if (!failure.empty()) return failure;
  try {
    failure = launch();
  } catch (const std::exception& error) {
    abort(error.what());  // ends the window, for which memory calls wait
    throw;
  }
  return failure.empty() ? wait_for_launches(&LaunchWindow::close) : failure;
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
  const Failure failure = launch_in_window([&] { return launch_graph(stream, launch); });
  if (!failure.empty()) fail(failure);
}

// cudaGraphLaunch may block until the other ranks have launched, so stop() must not have to wait
// for it: the lock is not held. An aborted communicator lives as long as its graphs, and its
// kernels return at once.
NcclCollective::Failure NcclCollective::launch_graph(cudaStream_t stream,
                                                     const std::function<void()>& launch) {
  {
    const std::lock_guard lock(mutex_);
    if (comm_ == nullptr) return concat(who(), ": a step after the group has ended");
    watch_.begin(stream);
  }
  launch();
  const std::lock_guard lock(mutex_);
  watch_.end(stream);
  return "";
}

void NcclCollective::all_reduce(float* values, std::int64_t count, cudaStream_t stream) {
  if (count == 0) return;
  enqueue("ncclAllReduce", stream, [&](ncclComm_t comm) {
    return nccl().all_reduce(values, values, static_cast<std::size_t>(count), ncclFloat32, ncclSum,
                             comm, stream);
  });
}

void NcclCollective::all_gather(const float* from, float* to, std::int64_t count,
                                cudaStream_t stream) {
  if (count == 0) return;
  enqueue("ncclAllGather", stream, [&](ncclComm_t comm) {
    return nccl().all_gather(from, to, static_cast<std::size_t>(count), ncclFloat32, comm, stream);
  });
}

NcclCollective::Failure NcclCollective::silence() {
  return watch_.silence() <= timeout_ ? "" : describe_silence();
}

NcclCollective::Failure NcclCollective::describe_silence() const {
  return concat(who(), ": the sum has waited for other ranks for ", format_seconds(timeout_),
                ", the limit of parallel.timeout");
}

void NcclCollective::check() {
  group_.process->throw_if_failed(group_.rank);
  Failure failure;
  {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock() || comm_ == nullptr) return;  // who holds it looks by itself
    ncclResult_t status = ncclSuccess;
    const ncclResult_t asked = nccl().get_async_error(comm_, &status);
    if (asked != ncclSuccess) status = asked;
    failure = status == ncclSuccess || status == ncclInProgress
                  ? silence()
                  : describe_failure("ncclCommGetAsyncError", status);
  }
  if (!failure.empty()) fail(failure);
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

void NcclCollective::fail(const Failure& failure) {
  group_.process->throw_if_failed(group_.rank);
  const std::string reason = failure + diagnose_peers();
  abort(reason);
  group_.process->throw_if_failed(group_.rank);
  throw PeerError(reason);  // not reached: abort() has failed the group
}

void NcclCollective::abort(const std::string& reason) noexcept {
  group_.process->fail(group_.rank, reason);
  peers_->abort(reason);
}

void NcclCollective::stop() noexcept {
  const std::lock_guard lock(mutex_);
  if (comm_ == nullptr) return;
  const ncclComm_t comm = std::exchange(comm_, nullptr);
  try {
    aborting_ = std::jthread([comm] { nccl().abort(comm); });
  } catch (const std::system_error&) {  // no thread: then this one waits
    nccl().abort(comm);
  }
}

}  // namespace

std::unique_ptr<CudaCollective> make_nccl_collective(RankGroup group, cluster::Communicator& ranks,
                                                     std::chrono::milliseconds timeout) {
  return std::make_unique<NcclCollective>(std::move(group), ranks, timeout);
}

}  // namespace trainer::backend::cuda
