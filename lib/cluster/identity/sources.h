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
};

std::optional<Claim> claim_of_tf_config(const config::Environment& environment);
std::optional<Claim> claim_of_torchrun(const config::Environment& environment);
std::optional<Claim> claim_of_open_mpi(const config::Environment& environment);
std::optional<Claim> claim_of_pmi(const config::Environment& environment);
std::optional<Claim> claim_of_slurm(const config::Environment& environment);

// Throws ConfigError "what: message".
[[noreturn]] void wrong(const std::string& what, const std::string& message);
// Returns the number of tasks of host `node` in a list of Slurm: 2 for host 1 of "4,2(x3)". Returns
// nullopt for a text that is not such a list and for a host outside of it.
std::optional<int> tasks_of_node(std::string_view list, int node);
// Returns the variable as a number from 0, and nullopt when it is not set. Throws ConfigError.
std::optional<int> read_number(const config::Environment& environment, const std::string& name);

}  // namespace trainer::cluster
