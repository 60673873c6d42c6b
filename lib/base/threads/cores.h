// The processor cores of this process.
#pragma once

#include <sched.h>

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

namespace trainer {

// The cores this process may use: containers and taskset give fewer than the machine has. At least
// one.
std::vector<int> available_cores();

// The processor time that the control groups around this process allow, in cores and rounded up; 0
// where they set no limit. `docker run --cpus` and limits of Kubernetes are such quotas: the
// process may run on every core, but the system stops it for the rest of a period once the time is
// used up. `root` is the folder that contains /proc and /sys.
std::int64_t core_quota(const std::filesystem::path& root = "/");

// The number of threads that can run at once all the time: that of the available cores, or the
// quota where it is less. At least one.
std::int64_t usable_core_count();

// Keeps the calling thread on these cores; where that is not allowed, nothing changes.
void pin_thread(std::span<const int> cores);

// Keeps the calling thread on these cores for as long as the object lives. Threads started
// meanwhile inherit it.
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
