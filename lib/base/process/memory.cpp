#include "base/process/memory.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>

#include "base/process/control_groups.h"

namespace trainer {
namespace {

using std::filesystem::path;

constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();

// Returns the number after `word` in a file of "word number" lines, or 0.
std::int64_t number_after(const path& name, const std::string& word) {
  std::ifstream file(name);
  for (std::string key; file >> key;) {
    std::int64_t value = 0;
    if (key == word && file >> value) return value;
  }
  return 0;
}

// The names of the files of a group in each version.
struct Files {
  const char *limit, *used, *reclaimable;
};
constexpr Files kVersion2{"memory.max", "memory.current", "inactive_file"};
constexpr Files kVersion1{"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"};

std::int64_t read_limit(const path& group, const Files& files) {
  std::int64_t bytes = 0;
  return std::ifstream(group / files.limit) >> bytes ? bytes : kNoLimit;
}

// Returns the limit of a group less the memory that it uses. Pages of files do not count as used,
// because the system frees them first.
std::int64_t left_in(const path& group, const Files& files) {
  const std::int64_t limit = read_limit(group, files);
  std::int64_t used = 0;
  if (limit == kNoLimit || !(std::ifstream(group / files.used) >> used)) return kNoLimit;
  used -= std::min(used, number_after(group / "memory.stat", files.reclaimable));
  return std::max<std::int64_t>(limit - used, 0);
}

using Measure = std::int64_t (*)(const path& group, const Files& files);

// Returns the smallest value over the groups of both versions around this process.
std::int64_t least_in_groups(const path& root, Measure measure) {
  std::int64_t least = kNoLimit;
  for (const path& group : control_groups(root)) least = std::min(least, measure(group, kVersion2));
  for (const path& group : control_groups(root, "memory")) {
    least = std::min(least, measure(group, kVersion1));
  }
  return least;
}

std::int64_t machine_or_groups(const path& root, const char* word, Measure measure) {
  const std::int64_t machine = number_after(root / "proc/meminfo", word) * 1024;
  const std::int64_t least =
      std::min(machine == 0 ? kNoLimit : machine, least_in_groups(root, measure));
  return least == kNoLimit ? 0 : least;
}

}  // namespace

std::int64_t available_memory(const path& root) {
  return machine_or_groups(root, "MemAvailable:", left_in);
}

std::int64_t total_memory(const path& root) {
  return machine_or_groups(root, "MemTotal:", read_limit);
}

}  // namespace trainer
