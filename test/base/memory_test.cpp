#include "base/process/memory.h"

#include <doctest/doctest.h>

#include <fstream>

#include "base/files/files.h"

using trainer::available_memory;
using trainer::Path;
using trainer::total_memory;

namespace {

// A /proc and a /sys of our own.
struct Machine {
  void write(const std::string& path, const std::string& content) const {
    std::filesystem::create_directories((folder.path() / path).parent_path());
    std::ofstream(folder.path() / path) << content;
  }
  std::int64_t available() const { return available_memory(folder.path()); }
  std::int64_t total() const { return total_memory(folder.path()); }
  trainer::TemporaryFolder folder;
};

}  // namespace

TEST_CASE(
    "available_memory is the memory of the machine, or what a control group leaves if that is "
    "less") {
  const Machine machine;
  CHECK(machine.available() == 0);
  machine.write("proc/meminfo", "MemTotal: 4000 kB\nMemFree: 10 kB\nMemAvailable: 3000 kB\n");
  CHECK(machine.available() == 3000 * 1024);

  SUBCASE("version 2: the innermost limit") {
    machine.write("proc/self/cgroup", "0::/job/run\n");
    machine.write("sys/fs/cgroup/job/run/memory.max", "max\n");
    machine.write("sys/fs/cgroup/job/run/memory.current", "1000\n");
    CHECK(machine.available() == 3000 * 1024);
    machine.write("sys/fs/cgroup/job/memory.max", "90000\n");
    machine.write("sys/fs/cgroup/job/memory.current", "50000\n");
    CHECK(machine.available() == 40000);
    machine.write("sys/fs/cgroup/job/run/memory.max", "20000\n");
    CHECK(machine.available() == 19000);
    machine.write("sys/fs/cgroup/job/run/memory.current", "30000\n");
    CHECK(machine.available() == 0);
  }
  SUBCASE("pages of files are given up first") {
    machine.write("proc/self/cgroup", "0::/\n");
    machine.write("sys/fs/cgroup/memory.max", "90000\n");
    machine.write("sys/fs/cgroup/memory.current", "80000\n");
    machine.write("sys/fs/cgroup/memory.stat", "anon 10\nactive_file 7\ninactive_file 20000\n");
    CHECK(machine.available() == 30000);
  }
  SUBCASE("version 1, whose group the container does not see") {
    machine.write("proc/self/cgroup", "5:cpu,cpuacct:/a\n4:memory:/docker/abc\n0::/\n");
    machine.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "70000\n");
    machine.write("sys/fs/cgroup/memory/memory.usage_in_bytes", "60000\n");
    machine.write("sys/fs/cgroup/memory/memory.stat", "inactive_file 1\ntotal_inactive_file 500\n");
    CHECK(machine.available() == 10500);
    machine.write("sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes", "4000\n");
    machine.write("sys/fs/cgroup/memory/docker/abc/memory.usage_in_bytes", "1000\n");
    CHECK(machine.available() == 3000);
  }
}

TEST_CASE(
    "total_memory is the machine's memory or the smallest limit of a group, whatever is used") {
  const Machine machine;
  CHECK(machine.total() == 0);
  machine.write("proc/meminfo", "MemTotal: 4000 kB\nMemAvailable: 10 kB\n");
  CHECK(machine.total() == 4000 * 1024);
  machine.write("proc/self/cgroup", "0::/job/run\n");
  machine.write("sys/fs/cgroup/job/run/memory.max", "max\n");
  CHECK(machine.total() == 4000 * 1024);
  machine.write("sys/fs/cgroup/job/memory.max", "90000\n");
  CHECK(machine.total() == 90000);
}
