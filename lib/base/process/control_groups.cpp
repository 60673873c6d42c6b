#include "base/process/control_groups.h"

#include <algorithm>
#include <fstream>
#include <string>

#include "base/text.h"

namespace trainer {
namespace {

using std::filesystem::path;

// Returns whether `controllers`, the second field of a line of /proc/self/cgroup, names the
// controller. The field is empty for version 2 and lists several controllers where they share a
// mount point.
bool names(const std::string& controllers, std::string_view controller) {
  const std::vector<std::string> all = split_text(controllers, ',');
  return controllers == controller || std::ranges::find(all, controller) != all.end();
}

// The path of this process's group below the mount point, "" where it is unknown.
path group_of_process(const path& root, std::string_view controller) {
  std::ifstream groups(root / "proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    if (names(line.substr(first + 1, second - first - 1), controller)) {
      return path(line.substr(second + 1)).relative_path();
    }
  }
  return {};
}

std::vector<path> groups_below(const path& mount, const path& group) {
  std::vector<path> folders{mount};
  for (const path& part : group) folders.push_back(folders.back() / part);
  return folders;
}

}  // namespace

std::vector<path> control_groups(const path& root) {
  return groups_below(root / "sys/fs/cgroup", group_of_process(root, ""));
}

std::vector<path> control_groups(const path& root, std::string_view controller) {
  return groups_below(root / "sys/fs/cgroup" / controller, group_of_process(root, controller));
}

}  // namespace trainer
