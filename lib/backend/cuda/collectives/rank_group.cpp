#include "backend/cuda/collectives/rank_group.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <random>
#include <span>

#include "backend/cuda/runtime.h"
#include "base/error.h"
#include "base/process/process.h"
#include "base/threads/thread_team.h"

namespace trainer::backend::cuda {
namespace {

std::uint64_t draw_number() {
  std::random_device device;
  return (std::uint64_t{device()} << 32) | device();
}

// What a rank sends to the others, as bytes.
struct Announcement {
  std::array<char, 64> host{};
  std::uint64_t process = 0;
  std::uint64_t group = 0;        // drawn by each rank; that of a process's first rank counts
  std::array<char, 16> device{};  // the same for one device in all processes; zeros: unknown
  std::int32_t index = 0;         // of the device in this process
};

Announcement announce(int device) {
  static const std::uint64_t kProcess = draw_number();
  Announcement announcement;
  const std::string host = host_name();
  std::copy_n(host.data(), std::min(host.size(), announcement.host.size() - 1),
              announcement.host.data());
  announcement.process = kProcess;
  announcement.group = draw_number();
  announcement.index = device;
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
  std::memcpy(announcement.device.data(), properties.uuid.bytes, announcement.device.size());
  return announcement;
}

// The group of that number in this process.
std::shared_ptr<ProcessGroup> join_process_group(std::uint64_t number, std::size_t ranks,
                                                 std::size_t local_ranks) {
  static std::mutex mutex;
  static std::map<std::uint64_t, std::weak_ptr<ProcessGroup>> groups;
  const std::lock_guard lock(mutex);
  std::erase_if(groups, [](const auto& group) { return group.second.expired(); });
  std::shared_ptr<ProcessGroup> group = groups[number].lock();
  if (!group) {
    group = std::make_shared<ProcessGroup>(ranks, local_ranks);
    groups[number] = group;
  }
  return group;
}

void check_processes(const RankGroup& group, const std::vector<Announcement>& all) {
  for (std::size_t a = 0; a < all.size(); ++a) {
    if (all[a].device == decltype(all[a].device){}) continue;
    for (std::size_t b = a + 1; b < all.size(); ++b) {
      if (all[a].process == all[b].process || all[a].device != all[b].device) continue;
      throw DeviceError(concat(group.name(static_cast<int>(a)), " and ",
                               group.name(static_cast<int>(b)),
                               " are processes that share one GPU, which cannot sum; give each "
                               "process GPUs of its own with parallel.gpus or "
                               "CUDA_VISIBLE_DEVICES"));
    }
  }
}

void check_sharing(const RankGroup& group) {
  if (group.on_one_device()) return;
  for (int a = 0; a < group.size(); ++a) {
    for (int b = a + 1; b < group.size(); ++b) {
      const RankPlace& one = group.places[a];
      const RankPlace& other = group.places[b];
      if (one.process != other.process || one.device != other.device) continue;
      throw DeviceError(concat("parallel.gpus: ", group.name(a), " and ", group.name(b),
                               " share a GPU, and other replicas have others; give all replicas "
                               "one GPU, or each its own"));
    }
  }
}

}  // namespace

void ProcessGroup::join(GroupMember& member) {
  const std::lock_guard lock(members_mutex_);
  members_.push_back(&member);
}

void ProcessGroup::leave(GroupMember& member) {
  const std::lock_guard lock(members_mutex_);
  std::erase(members_, &member);
}

void ProcessGroup::fail(int rank, const std::string& reason) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (!failed()) {
      failed_rank_ = rank;
      try {
        reason_ = reason;
      } catch (const std::exception&) {  // no memory: then without a reason
      }
      failed_.store(true, std::memory_order_release);
    }
  }
  launch_window_.fail();
  const std::lock_guard lock(members_mutex_);
  for (GroupMember* member : members_) member->stop();
}

void ProcessGroup::throw_if_failed(int rank) const {
  if (!failed()) return;
  if (rank == failed_rank_) throw PeerError(reason_);
  throw MemberFailed(concat("rank ", failed_rank_, " has failed: ", reason_));
}

bool RankGroup::is_local(int other) const { return places[other].process == places[rank].process; }

bool RankGroup::on_one_device() const {
  const RankPlace& first = places.front();
  return std::ranges::all_of(places, [&first](const RankPlace& place) {
    return place.process == first.process && place.device == first.device;
  });
}

std::string RankGroup::late_ranks() const {
  const std::uint64_t calls = process->calls(rank);
  std::string late;
  for (int other = 0; other < size(); ++other) {
    if (!is_local(other) || process->calls(other) >= calls) continue;
    late += concat(late.empty() ? "" : ", ", name(other), " has made ", process->calls(other));
  }
  return late.empty() ? "" : concat(late, " of ", calls, " sums");
}

std::string RankGroup::name(int other) const {
  const RankPlace& place = places[other];
  return concat("rank ", other, " (", place.host, ", GPU ", place.device, ")");
}

RankGroup meet(cluster::Communicator& ranks, int device) {
  const Announcement announcement = announce(device);
  std::vector<Announcement> all(ranks.size());
  ranks.all_gather(std::as_bytes(std::span(&announcement, 1)),
                   std::as_writable_bytes(std::span(all)));
  RankGroup group;
  group.rank = ranks.rank();
  for (const Announcement& each : all) {
    group.places.push_back({each.host.data(), each.process, each.index});
  }
  check_processes(group, all);
  check_sharing(group);
  const auto is_local = [&announcement](const Announcement& each) {
    return each.process == announcement.process;
  };
  const auto first = std::ranges::find_if(all, is_local);
  const auto local = std::ranges::count_if(all, is_local);
  group.process = join_process_group(first->group, all.size(), local);
  return group;
}

}  // namespace trainer::backend::cuda
