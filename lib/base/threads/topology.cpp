#include "base/threads/topology.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <tuple>

#include "base/error.h"
#include "base/text.h"

namespace trainer {
namespace {

using std::filesystem::path;

std::string word_in(const path& name) {
  std::ifstream file(name);
  std::string word;
  file >> word;
  return word;
}

// Returns the entries of a folder whose names are `prefix` and a number, by the number.
std::map<std::int64_t, path> numbered(const path& folder, const std::string& prefix) {
  std::map<std::int64_t, path> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with(prefix)) continue;
    if (const auto number = parse_integer(name.substr(prefix.size()))) {
      found[*number] = entry.path();
    }
  }
  return found;
}

// Returns whether a list of the kernel, such as "0-3,8", has the number.
bool has(const std::string& list, std::int64_t number) {
  for (const std::string& part : split_text(list, ',')) {
    const std::size_t dash = part.find('-');
    const auto first = parse_integer(part.substr(0, dash));
    const auto last = dash == std::string::npos ? first : parse_integer(part.substr(dash + 1));
    if (first && last && *first <= number && number <= *last) return true;
  }
  return false;
}

// Parses "1024K", the kernel's notation.
std::int64_t size_of_cache(const std::string& text) {
  if (!text.ends_with('K')) return 0;
  return parse_integer(text.substr(0, text.size() - 1)).value_or(0) * 1024;
}

struct Cache {
  std::string shared_by;  // list of processors; "" where there is no such cache
  std::int64_t bytes = 0;
};

Cache find_cache(const path& root, int processor, const std::string& level) {
  const path folder = root / concat("sys/devices/system/cpu/cpu", processor, "/cache");
  for (const auto& [index, cache] : numbered(folder, "index")) {
    if (word_in(cache / "level") != level || word_in(cache / "type") == "Instruction") continue;
    return {word_in(cache / "shared_cpu_list"), size_of_cache(word_in(cache / "size"))};
  }
  return {};
}

// Returns the first number of a list of the kernel, or -1 for an empty list.
std::int64_t first_number(const std::string& list) {
  return parse_integer(list.substr(0, list.find_first_of("-,"))).value_or(-1);
}

}  // namespace

Topology read_topology(const path& root, const std::vector<int>& processors) {
  std::map<std::int64_t, std::string> nodes;
  for (const auto& [node, folder] : numbered(root / "sys/devices/system/node", "node")) {
    nodes[node] = word_in(folder / "cpulist");
  }
  // Each processor's node, the first processor with the same L3 cache, and the processor's number.
  std::set<std::tuple<int, std::int64_t, int>> places;
  std::vector<std::string> caches;  // the processors that share each, so that few files are read
  for (const int processor : processors) {
    const auto node = std::ranges::find_if(
        nodes, [&](const auto& entry) { return has(entry.second, processor); });
    auto cache =
        std::ranges::find_if(caches, [&](const std::string& list) { return has(list, processor); });
    if (cache == caches.end()) {
      cache = caches.insert(cache, find_cache(root, processor, "3").shared_by);
    }
    places.emplace(node == nodes.end() ? 0 : static_cast<int>(node->first), first_number(*cache),
                   processor);
  }
  Topology topology;
  std::int64_t cache_before = 0;
  for (const auto& [node, cache, number] : places) {
    int domain = 0;
    if (!topology.processors.empty()) {
      const Processor& before = topology.processors.back();
      const bool same = before.node == node && cache_before == cache;
      domain = before.domain + (same ? 0 : 1);
    }
    topology.processors.push_back({number, domain, node});
    cache_before = cache;
  }
  const int first = topology.processors.front().number;
  topology.l2_bytes = find_cache(root, first, "2").bytes;
  topology.l3_bytes = find_cache(root, first, "3").bytes;
  topology.core_quota = core_quota(root);
  return topology;
}

Topology simulate_topology(const MachineShape& shape) {
  Topology topology;
  topology.simulated = true;
  topology.l2_bytes = shape.l2_kib * 1024;
  topology.l3_bytes = shape.l3_kib * 1024;
  const std::int64_t domains = shape.nodes * shape.domains_per_node;
  for (std::int64_t number = 0; number < domains * shape.cores_per_domain; ++number) {
    const std::int64_t domain = number / shape.cores_per_domain;
    topology.processors.push_back({static_cast<int>(number), static_cast<int>(domain),
                                   static_cast<int>(domain / shape.domains_per_node)});
  }
  return topology;
}

std::vector<int> processor_numbers(std::span<const Processor> processors) {
  std::vector<int> numbers;
  for (const Processor& processor : processors) numbers.push_back(processor.number);
  return numbers;
}

int count_domains(std::span<const Processor> processors) {
  std::set<int> domains;
  for (const Processor& processor : processors) domains.insert(processor.domain);
  return static_cast<int>(domains.size());
}

int count_nodes(std::span<const Processor> processors) {
  std::set<int> nodes;
  for (const Processor& processor : processors) nodes.insert(processor.node);
  return static_cast<int>(nodes.size());
}

std::int64_t usable_core_count(const Topology& topology) {
  const auto cores = std::ssize(topology.processors);
  return topology.core_quota > 0 ? std::min(topology.core_quota, cores) : cores;
}

std::string describe(const Topology& topology) {
  const std::size_t domains = count_domains(topology.processors);
  const std::size_t nodes = count_nodes(topology.processors);
  const std::size_t cores = topology.processors.size();
  const std::size_t usable = usable_core_count(topology);
  std::string text = concat(usable < cores ? concat(usable, " of ") : "", counted(cores, "core"),
                            usable < cores ? " (control group), " : ", ",
                            counted(domains, "L3 domain"), ", ", counted(nodes, "NUMA node"));
  if (topology.l2_bytes > 0) text += concat(", L2 ", topology.l2_bytes / 1024, " KiB");
  if (topology.l3_bytes > 0) text += concat(", L3 ", topology.l3_bytes / 1024, " KiB");
  return text;
}

}  // namespace trainer
