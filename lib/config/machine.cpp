#include "config/machine.h"

#include <filesystem>

#include "base/error.h"
#include "base/files/files.h"
#include "config/decode.h"
#include "config/field.h"

namespace trainer::config {

void fields(FieldVisitor& v, MachineShape& s) {
  v("nodes", s.nodes, "NUMA nodes.", count_up_to(kMaxCores));
  v("domains_per_node", s.domains_per_node, "L3 caches of a node.", count_up_to(kMaxCores));
  v("cores_per_domain", s.cores_per_domain, "Cores that share an L3 cache.",
    count_up_to(kMaxCores).required());
  v("l2_kib", s.l2_kib, "KiB of a core's L2 cache.", at_least(0));
  v("l3_kib", s.l3_kib, "KiB of an L3 cache.", at_least(0));
}

MachineShape parse_machine(const std::string& text, const std::string& file) {
  std::vector<Diagnostic> diagnostics;
  const Node root = read_yaml(text, file, diagnostics);
  if (!diagnostics.empty()) throw ConfigError(std::move(diagnostics));
  const MachineShape shape = decode_machine(root, diagnostics);
  if (!diagnostics.empty()) throw ConfigError(std::move(diagnostics));
  const std::int64_t cores = shape.nodes * shape.domains_per_node * shape.cores_per_domain;
  if (cores > kMaxCores) {
    throw ConfigError(SourceLoc{file, 1, 1}, "nodes x domains_per_node x cores_per_domain is ",
                      cores, " cores; expected at most ", kMaxCores);
  }
  return shape;
}

MachineShape load_machine(const std::string& path) {
  if (!is_file(path)) {
    throw ConfigError(SourceLoc{path, 0, 0},
                      "no such file; --machine takes a YAML file such as 'cores_per_domain: 8'");
  }
  return parse_machine(read_text_file(path), path);
}

}  // namespace trainer::config
