#include "base/threads/cores.h"

#include <doctest/doctest.h>

#include <fstream>

#include "base/files/files.h"

namespace trainer {
namespace {

// A folder in place of / with the files of control groups.
class FakeRoot {
 public:
  void write(const std::string& path, const std::string& content) const {
    std::filesystem::create_directories((folder_.path() / path).parent_path());
    std::ofstream(folder_.path() / path) << content;
  }
  std::int64_t quota() const { return core_quota(folder_.path()); }

 private:
  TemporaryFolder folder_;
};

}  // namespace

TEST_CASE("core_quota returns 0 without control groups, and for groups without a limit") {
  const FakeRoot root;
  CHECK(root.quota() == 0);
  root.write("proc/self/cgroup", "3:cpu,cpuacct:/\n0::/job\n");
  root.write("sys/fs/cgroup/job/cpu.max", "max 100000\n");
  root.write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  root.write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  CHECK(root.quota() == 0);
}

TEST_CASE("core_quota of version 2 is the smallest of the groups around the process, rounded up") {
  const FakeRoot root;
  root.write("proc/self/cgroup", "0::/job/run\n");
  root.write("sys/fs/cgroup/job/cpu.max", "800000 100000\n");
  CHECK(root.quota() == 8);
  root.write("sys/fs/cgroup/job/run/cpu.max", "150000 100000\n");
  CHECK(root.quota() == 2);
  root.write("sys/fs/cgroup/cpu.max", "10000 100000\n");
  CHECK(root.quota() == 1);
  root.write("sys/fs/cgroup/other/cpu.max", "1000 100000\n");
  CHECK(root.quota() == 1);
}

TEST_CASE(
    "core_quota of version 1 is found where cpu shares its mount point and the group is hidden") {
  const FakeRoot root;
  root.write("proc/self/cgroup", "9:cpuset:/a\n5:cpu,cpuacct:/docker/abc\n0::/\n");
  root.write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "400000\n");
  root.write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  CHECK(root.quota() == 4);
  root.write("sys/fs/cgroup/cpu/docker/abc/cpu.cfs_quota_us", "50000\n");
  root.write("sys/fs/cgroup/cpu/docker/abc/cpu.cfs_period_us", "25000\n");
  CHECK(root.quota() == 2);
}

TEST_CASE("core_quota returns 0 for files of other content") {
  const FakeRoot root;
  root.write("sys/fs/cgroup/cpu.max", "many 100000\n");
  CHECK(root.quota() == 0);
  root.write("sys/fs/cgroup/cpu.max", "100000 0\n");
  CHECK(root.quota() == 0);
}

TEST_CASE("usable_core_count returns at least one and at most the available cores") {
  CHECK(usable_core_count() >= 1);
  CHECK(usable_core_count() <= static_cast<std::int64_t>(available_cores().size()));
}

}  // namespace trainer
