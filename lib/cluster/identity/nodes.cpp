// Reads what names the nodes of a job, of which each is one rank: its process drives all cores and
// GPUs of the node.
// https://github.com/kubeflow/trainer (pkg/runtime/framework/plugins/torch and jax),
// https://kubernetes.io/docs/concepts/workloads/controllers/job (completion mode Indexed)
#include <algorithm>

#include "base/process/process.h"
#include "cluster/identity/sources.h"

namespace trainer::cluster {
namespace {

constexpr int kDefaultPort = 29500;  // that of torchrun

// Lets messages name the list of hosts as the user gives it.
const std::string kHosts = "parallel.hosts";

// Returns the hosts of an entry, "a", "a:1234" or "pod-{0..3}.digits,login", in the order of ranks.
std::vector<std::string> expand_hosts(std::string entry) {
  if (entry.starts_with('[')) return {entry};  // a numeric address of IPv6
  for (std::size_t open = 0; (open = entry.find('{', open)) != std::string::npos;) {
    const std::size_t dots = entry.find("..", open), close = entry.find('}', open);
    if (dots > close || close == std::string::npos) {
      wrong(kHosts, "expected a range such as {0..3} in '" + entry + "'");
    }
    entry[close] = ']';
    entry.replace(dots, 2, "-");
    entry[open] = '[';
  }
  return expand_nodelist(entry);
}

Address parse_host(const std::string& entry, int default_port) {
  if (const auto address = parse_address(entry)) return *address;
  if (entry.empty() || entry.find_first_of(" \t/:") != std::string::npos) {
    wrong(kHosts, "expected a host or host:port, found '" + entry + "'");
  }
  return {entry, default_port};
}

std::string first_label(const std::string& host) { return host.substr(0, host.find('.')); }

int find_own_rank(const std::vector<Address>& nodes) {
  const std::string host = host_name();
  auto found = std::ranges::find(nodes, host, &Address::host);
  if (found == nodes.end()) {
    found = std::ranges::find(nodes, first_label(host),
                              [](const Address& node) { return first_label(node.host); });
  }
  if (found == nodes.end()) {
    wrong(kHosts, concat("this host, ", host, ", is not among the ", nodes.size(),
                         " of the list, and JOB_COMPLETION_INDEX is not set"));
  }
  return static_cast<int>(found - nodes.begin());
}

// Makes the claim of a job with one rank per node.
std::optional<Claim> make_node_claim(std::optional<Claim> claim, const std::string& source) {
  if (!claim) return {};
  claim->of_nodes = true;
  claim->identity.source = source;
  claim->identity.local_rank = 0;
  claim->identity.local_size = 1;
  return claim;
}

}  // namespace

std::optional<Claim> claim_of_jax(const config::Environment& environment) {
  auto claim = make_node_claim(make_claim(environment, "JAX_PROCESS_ID", "JAX_NUM_PROCESSES"),
                               "JAX_PROCESS_ID");
  if (!claim) return {};
  const std::string coordinator = "JAX_COORDINATOR_ADDRESS";
  const std::string text = read_variable(environment, coordinator);
  const auto address = parse_address(text);
  if (!address && claim->identity.size > 1) {
    wrong(coordinator, "expected host:port with a port from 1 to 65535, found '" + text + "'");
  }
  if (address) claim->identity.master = *address;
  return claim;
}

std::optional<Claim> claim_of_torch_runtime(const config::Environment& environment) {
  const std::string nodes = read_variable(environment, "PET_NNODES");
  if (nodes.find(':') != std::string::npos) {
    wrong("PET_NNODES", "the number of nodes must be fixed, such as 4; found the range " + nodes);
  }
  auto claim =
      make_node_claim(make_claim(environment, "PET_NODE_RANK", "PET_NNODES"), "PET_NODE_RANK");
  if (!claim) return {};
  claim->identity.master.host = read_variable(environment, "PET_MASTER_ADDR");
  claim->identity.master.port = read_number(environment, "PET_MASTER_PORT").value_or(kDefaultPort);
  return claim;
}

std::optional<Claim> claim_of_hosts(const config::Environment& environment,
                                    const std::vector<std::string>& hosts) {
  if (hosts.empty()) return {};
  std::vector<Address> nodes;
  const int port = read_number(environment, "MASTER_PORT").value_or(kDefaultPort);
  for (const std::string& entry : hosts) {
    for (const std::string& host : expand_hosts(entry)) nodes.push_back(parse_host(host, port));
  }
  const auto index = read_number(environment, "JOB_COMPLETION_INDEX");
  Claim claim;
  claim.identity.rank = index ? *index : find_own_rank(nodes);
  claim.identity.size = static_cast<int>(nodes.size());
  claim.identity.master = nodes[0];
  return make_node_claim(claim, index ? "JOB_COMPLETION_INDEX" : kHosts);
}

}  // namespace trainer::cluster
