// The keys of a machine's file: `trainer plan --machine`.
#pragma once

#include "base/threads/topology.h"
#include "config/machine.h"
#include "config/rule.h"

namespace trainer::config {

template <class V>
void fields(V& v, MachineShape& s) {
  v("nodes", s.nodes, "NUMA nodes.", count_up_to(kMostCores));
  v("domains_per_node", s.domains_per_node, "L3 caches of a node.", count_up_to(kMostCores));
  v("cores_per_domain", s.cores_per_domain, "Cores that share an L3 cache.",
    count_up_to(kMostCores).must());
  v("l2_kib", s.l2_kib, "KiB of a core's L2 cache.", at_least(0));
  v("l3_kib", s.l3_kib, "KiB of an L3 cache.", at_least(0));
}

}  // namespace trainer::config
