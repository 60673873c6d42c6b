// Reads the variables that torchrun, Open MPI, PMI launchers and Slurm set for the processes that
// they start.
// https://docs.pytorch.org/docs/stable/elastic/run.html, https://docs.open-mpi.org,
// https://slurm.schedmd.com/srun.html (output environment variables)
#include "cluster/identity/sources.h"

namespace trainer::cluster {
namespace {

// A rank and a size that stand in two variables, of which neither may be missing.
std::optional<Claim> make_claim(const config::Environment& environment, const std::string& rank,
                                const std::string& size) {
  const auto rank_value = read_number(environment, rank);
  const auto size_value = read_number(environment, size);
  if (!rank_value && !size_value) return {};
  if (!rank_value) wrong(size, "is set, but " + rank + " is not; set both or none");
  if (!size_value) wrong(rank, "is set, but " + size + " is not; set both or none");
  Claim claim;
  claim.identity.rank = *rank_value;
  claim.identity.size = *size_value;
  return claim;
}

std::string first_that_is_set(const config::Environment& environment,
                              std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (std::string text = read_variable(environment, name); !text.empty()) return text;
  }
  return "";
}

}  // namespace

std::optional<Claim> claim_of_torchrun(const config::Environment& environment) {
  auto claim = make_claim(environment, "RANK", "WORLD_SIZE");
  if (!claim) return {};
  claim->identity.source = "RANK";
  claim->identity.local_rank = read_number(environment, "LOCAL_RANK");
  claim->identity.local_size = read_number(environment, "LOCAL_WORLD_SIZE");
  claim->identity.job = first_that_is_set(environment, {"TORCHELASTIC_RUN_ID"});
  // torchrun sets "none" without --rdzv-id.
  claim->nests = !claim->identity.job.empty();
  if (claim->identity.job == "none") claim->identity.job.clear();
  return claim;
}

std::optional<Claim> claim_of_open_mpi(const config::Environment& environment) {
  auto claim = make_claim(environment, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE");
  if (!claim) return {};
  claim->identity.source = "Open MPI";
  claim->identity.local_rank = read_number(environment, "OMPI_COMM_WORLD_LOCAL_RANK");
  claim->identity.local_size = read_number(environment, "OMPI_COMM_WORLD_LOCAL_SIZE");
  claim->one_host = claim->identity.local_size == claim->identity.size;
  claim->identity.job =
      first_that_is_set(environment, {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"});
  claim->nests = true;
  return claim;
}

std::optional<Claim> claim_of_pmi(const config::Environment& environment) {
  auto claim = make_claim(environment, "PMI_RANK", "PMI_SIZE");
  if (!claim) return {};
  claim->identity.source = "PMI";
  claim->identity.local_rank = read_number(environment, "MPI_LOCALRANKID");
  claim->identity.local_size = read_number(environment, "MPI_LOCALNRANKS");
  claim->one_host = claim->identity.local_size == claim->identity.size;
  claim->identity.job = first_that_is_set(environment, {"PMI_JOBID"});
  claim->nests = true;
  return claim;
}

std::optional<Claim> claim_of_slurm(const config::Environment& environment) {
  // A batch script has SLURM_PROCID=0 too; only srun starts ranks, and only its steps have this.
  if (read_variable(environment, "SLURM_STEP_NUM_TASKS").empty()) return {};
  auto claim = make_claim(environment, "SLURM_PROCID", "SLURM_STEP_NUM_TASKS");
  if (!claim) return {};
  Identity& identity = claim->identity;
  identity.source = "Slurm";
  identity.local_rank = read_number(environment, "SLURM_LOCALID");
  if (const auto node = read_number(environment, "SLURM_NODEID")) {
    identity.local_size =
        tasks_of_node(read_variable(environment, "SLURM_STEP_TASKS_PER_NODE"), *node);
  }
  identity.job = first_that_is_set(environment, {"SLURM_JOB_ID", "SLURM_JOBID"}) + "." +
                 first_that_is_set(environment, {"SLURM_STEP_ID", "SLURM_STEPID"});
  const std::string list =
      first_that_is_set(environment, {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"});
  const std::vector<std::string> hosts = expand_nodelist(list);
  claim->one_host = hosts.size() == 1;
  if (hosts.size() > 1) identity.master.host = hosts[0];
  return claim;
}

}  // namespace trainer::cluster
