// The processor cores that this process may use.
#pragma once

#include <sched.h>

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

namespace trainer {

// Returns the cores that this process may use, at least one. Containers and taskset give fewer than
// the machine has.
std::vector<int> available_cores();

// Returns the processor time that the control groups around this process allow, in cores and
// rounded up, or 0 where they set no limit. `docker run --cpus` and limits of Kubernetes are such
// quotas: the process may run on every core, but the system stops it for the rest of a period once
// the time is used up. `root` is the folder that contains /proc and /sys.
std::int64_t core_quota(const std::filesystem::path& root = "/");

// Returns the number of threads that can run at once all the time, at least one: that of the
// available cores, or the quota where it is less.
std::int64_t usable_core_count();

// The largest number of lanes: groups of threads that compute a share of a batch together. More
// lanes have never been faster, and an update sums at most as many gradients.
inline constexpr int kMaxLanes = 64;

// Binds the calling thread to these cores. Changes nothing where the system does not allow it.
void pin_thread(std::span<const int> cores);

// Binds the calling thread to these cores for as long as the object lives. Threads that it starts
// meanwhile inherit the binding.
class Pinned {
 public:
  explicit Pinned(std::span<const int> cores);
  ~Pinned();
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;

 private:
  cpu_set_t before_;
};

}  // namespace trainer
