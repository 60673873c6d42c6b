// The single sources of identify(), inside the folder.
#pragma once

#include <optional>
#include <string_view>

#include "cluster/identity.h"

namespace trainer::cluster {

// The identity that one source gives; master may be missing.
struct Claim {
  Identity identity;
  bool nests = false;     // set by a launcher that may itself run inside another one's job
  bool one_host = false;  // all ranks are on this host
  // The source numbers the nodes of a job, on which another launcher may start the ranks.
  bool of_nodes = false;
};

// Returns the rank and the size that stand in two variables, nothing if neither is set. Throws
// ConfigError if one of them is missing.
std::optional<Claim> make_claim(const config::Environment& environment, const std::string& rank,
                                const std::string& size);

std::optional<Claim> claim_of_tf_config(const config::Environment& environment);
std::optional<Claim> claim_of_torchrun(const config::Environment& environment);
std::optional<Claim> claim_of_open_mpi(const config::Environment& environment);
std::optional<Claim> claim_of_flux(const config::Environment& environment);
std::optional<Claim> claim_of_pmi(const config::Environment& environment);
std::optional<Claim> claim_of_slurm(const config::Environment& environment);
// Takes `world_size` as the size where the environment has none, as that of PRRTE's prterun.
std::optional<Claim> claim_of_pmix(const config::Environment& environment,
                                   std::optional<int> world_size);
std::optional<Claim> claim_of_jax(const config::Environment& environment);
std::optional<Claim> claim_of_torch_runtime(const config::Environment& environment);
// `hosts` are the nodes of the job, by rank. The rank is JOB_COMPLETION_INDEX, or else the place of
// this host in the list.
std::optional<Claim> claim_of_hosts(const config::Environment& environment,
                                    const std::vector<std::string>& hosts);

// Throws ConfigError "what: message".
[[noreturn]] void wrong(const std::string& what, const std::string& message);
// Returns the number of tasks of host `node` in a list of Slurm: 2 for host 1 of "4,2(x3)". Returns
// nullopt for a text that is not such a list and for a host outside of it.
std::optional<int> tasks_of_node(std::string_view list, int node);
// Returns the variable as a number from 0, and nullopt when it is not set. Throws ConfigError.
std::optional<int> read_number(const config::Environment& environment, const std::string& name);

}  // namespace trainer::cluster
