// The ranks of a group of GPUs: where each is, and what those of one process share.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backend/cuda/collectives/launch_window.h"
#include "backend/cuda/collectives/peer_watch.h"
#include "cluster/communicator.h"

namespace trainer::backend::cuda {

struct RankPlace {
  std::string host;
  std::uint64_t process = 0;  // a number of its own for each process
  int device = 0;
};

// A rank of this process, which is stopped when one of them has failed.
class GroupMember {
 public:
  // Ends the rank's work on the device that waits for others; from any thread, more than once.
  virtual void stop() noexcept = 0;

 protected:
  ~GroupMember() = default;
};

// State that the ranks of one process share: which has failed, and how far each is. Thread-safe.
class ProcessGroup {
 public:
  // `ranks` counts those of all processes, `local_ranks` those of this one.
  ProcessGroup(std::size_t ranks, std::size_t local_ranks)
      : calls_(ranks), launch_window_(local_ranks) {}

  void join(GroupMember& member);
  void leave(GroupMember& member);

  // Stops all members, which must hold no lock that stop() takes. The first failure is kept.
  void fail(int rank, const std::string& reason) noexcept;
  bool failed() const { return failed_.load(std::memory_order_acquire); }
  // Throws if a rank has failed: PeerError on the rank that failed, MemberFailed on the others.
  void throw_if_failed(int rank) const;

  // An object that all ranks share, made by the first that asks; they must ask for the same type.
  template <class T>
  std::shared_ptr<T> common(std::size_t ranks) {
    const std::lock_guard lock(members_mutex_);
    if (!common_) common_ = std::make_shared<T>(ranks);
    return std::static_pointer_cast<T>(common_);
  }

  LaunchWindow& launch_window() { return launch_window_; }
  // The one thread of the group's ranks in this process that looks for failures.
  PeerWatch& peer_watch() { return peer_watch_; }

  // Calls that a rank of this process has made.
  void count_call(int rank) { calls_[rank].fetch_add(1); }
  std::uint64_t calls(int rank) const { return calls_[rank].load(); }

 private:
  std::vector<std::atomic<std::uint64_t>> calls_;
  LaunchWindow launch_window_;
  std::mutex members_mutex_;
  std::vector<GroupMember*> members_;
  std::shared_ptr<void> common_;
  mutable std::mutex mutex_;
  int failed_rank_ = -1;
  std::string reason_;  // set before failed_, and not again
  std::atomic<bool> failed_{false};
  PeerWatch peer_watch_;
};

struct RankGroup {
  int rank = 0;
  std::vector<RankPlace> places;  // indexed by rank
  std::shared_ptr<ProcessGroup> process;

  int size() const { return static_cast<int>(places.size()); }
  bool is_local(int other) const;  // true if the rank is in this process
  bool on_one_device() const;      // all ranks in this process and on one device
  // The ranks of this process that have made fewer calls than this one, as text; "" if there is
  // none.
  std::string late_ranks() const;
  std::string name(int other) const;  // "rank 2 (host, GPU 1)"
  std::string own_name() const { return name(rank); }
};

// Collective. `device` is the calling rank's. Throws DeviceError, on all ranks, when ranks of two
// processes share a device, or some ranks share one and others do not.
RankGroup meet(cluster::Communicator& ranks, int device);

}  // namespace trainer::backend::cuda
