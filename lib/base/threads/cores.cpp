#include "base/threads/cores.h"

#include <algorithm>
#include <fstream>
#include <limits>

#include "base/process/control_groups.h"

namespace trainer {
namespace {

using std::filesystem::path;

constexpr std::int64_t kNoQuota = std::numeric_limits<std::int64_t>::max();

// Returns the quota in cores, rounded up. Both arguments are in microseconds; a quota below 1 means
// that there is no limit.
std::int64_t cores_in(std::int64_t quota, std::int64_t period) {
  return quota > 0 && period > 0 ? (quota + period - 1) / period : kNoQuota;
}

// Reads "QUOTA PERIOD" or "max PERIOD".
std::int64_t quota_of_version_2(const path& group) {
  std::int64_t quota = 0, period = 0;
  std::ifstream file(group / "cpu.max");
  return file >> quota >> period ? cores_in(quota, period) : kNoQuota;
}

std::int64_t quota_of_version_1(const path& group) {
  std::int64_t quota = 0, period = 0;
  std::ifstream(group / "cpu.cfs_quota_us") >> quota;
  std::ifstream(group / "cpu.cfs_period_us") >> period;
  return cores_in(quota, period);
}

}  // namespace

std::vector<int> available_cores() {
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return {0};
  std::vector<int> cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  }
  return cores;
}

std::int64_t core_quota(const path& root) {
  std::int64_t least = kNoQuota;
  for (const path& group : control_groups(root)) least = std::min(least, quota_of_version_2(group));
  for (const path& group : control_groups(root, "cpu")) {
    least = std::min(least, quota_of_version_1(group));
  }
  return least == kNoQuota ? 0 : least;
}

std::int64_t usable_core_count() {
  const auto available = std::ssize(available_cores());
  const std::int64_t quota = core_quota();
  return quota > 0 ? std::min(quota, available) : available;
}

void pin_thread(std::span<const int> cores) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int core : cores) CPU_SET(core, &set);
  ::sched_setaffinity(0, sizeof set, &set);
}

Pinned::Pinned(std::span<const int> cores) {
  CPU_ZERO(&before_);
  ::sched_getaffinity(0, sizeof before_, &before_);
  pin_thread(cores);
}

Pinned::~Pinned() {
  if (CPU_COUNT(&before_) > 0) ::sched_setaffinity(0, sizeof before_, &before_);
}

}  // namespace trainer
