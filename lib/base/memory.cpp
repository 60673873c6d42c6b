#include "base/memory.h"

#include <algorithm>
#include <fstream>
#include <string>

namespace trainer {
namespace {

// What stands behind `word` in a file of "word: number" lines, or 0.
std::int64_t number_after(const char* path, const std::string& word) {
  std::ifstream file(path);
  for (std::string key; file >> key;) {
    std::int64_t value = 0;
    if (key == word && file >> value) return value;
  }
  return 0;
}

}  // namespace

std::int64_t available_memory() {
  const std::int64_t machine = number_after("/proc/meminfo", "MemAvailable:") * 1024;
  std::ifstream limit("/sys/fs/cgroup/memory.max"), used("/sys/fs/cgroup/memory.current");
  std::int64_t most = 0, taken = 0;
  if (!(limit >> most) || !(used >> taken)) return machine;
  const std::int64_t group = std::max<std::int64_t>(most - taken, 0);
  return machine == 0 ? group : std::min(machine, group);
}

}  // namespace trainer
