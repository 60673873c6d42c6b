#include "base/memory.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>
#include <string_view>

namespace trainer {
namespace {

using std::filesystem::path;

constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();

// What stands behind `word` in a file of "word number" lines, or 0.
std::int64_t number_after(const path& name, const std::string& word) {
  std::ifstream file(name);
  for (std::string key; file >> key;) {
    std::int64_t value = 0;
    if (key == word && file >> value) return value;
  }
  return 0;
}

// How a version of control groups calls its controller, in /proc/self/cgroup, and its files.
struct Version {
  std::string_view controller;
  const char *mount, *limit, *used, *reclaimable;
};
constexpr Version kVersions[]{
    {"", "sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"},
    {"memory", "sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
     "total_inactive_file"}};

// Of one group: its limit less what it holds, of which pages of files are given up first.
std::int64_t left_in(const path& group, const Version& version) {
  std::ifstream limit(group / version.limit), used(group / version.used);
  std::int64_t most = 0, taken = 0;
  if (!(limit >> most) || !(used >> taken)) return kNoLimit;
  taken -= std::min(taken, number_after(group / "memory.stat", version.reclaimable));
  return std::max<std::int64_t>(most - taken, 0);
}

// Of the process's group and of those around it. A container may not see its own group's path, but
// always the outermost group that is mounted.
std::int64_t left_in_groups(const path& root, const Version& version) {
  std::string inner = "/";
  std::ifstream groups(root / "proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    if (line.compare(first + 1, second - first - 1, version.controller) == 0) {
      inner = line.substr(second + 1);
    }
  }
  const path mount = root / version.mount;
  std::int64_t least = left_in(mount, version);
  for (path group = path(inner).relative_path(); !group.empty(); group = group.parent_path()) {
    least = std::min(least, left_in(mount / group, version));
  }
  return least;
}

}  // namespace

std::int64_t available_memory(const path& root) {
  const std::int64_t machine = number_after(root / "proc/meminfo", "MemAvailable:") * 1024;
  std::int64_t least = machine == 0 ? kNoLimit : machine;
  for (const Version& version : kVersions) least = std::min(least, left_in_groups(root, version));
  return least == kNoLimit ? 0 : least;
}

}  // namespace trainer
