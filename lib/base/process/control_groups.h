// The control groups (cgroups, version 1 or 2) around this process, by which containers and Slurm
// limit it: https://docs.kernel.org/admin-guide/cgroup-v2.html, cgroup-v1/index.html.
#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

namespace trainer {

// Returns the folders of the groups around this process in version 2, from the mount point
// inwards. A container may not see the path of its own group, but it always sees the mount point.
// `root` is the folder that contains /proc and /sys. Does not throw.
std::vector<std::filesystem::path> control_groups(const std::filesystem::path& root);

// Returns the groups of a controller of version 1, such as "memory" or "cpu".
std::vector<std::filesystem::path> control_groups(const std::filesystem::path& root,
                                                  std::string_view controller);

}  // namespace trainer
