// Reads the variables that torchrun, Open MPI, Flux, PMI and PMIx launchers and Slurm set for the
// processes that they start.
// https://docs.pytorch.org/docs/stable/elastic/run.html, https://docs.open-mpi.org,
// https://flux-framework.readthedocs.io (flux-environment(7), flux-hostlist(1)),
// https://slurm.schedmd.com/srun.html (output environment variables)
#include <cstdio>
#include <memory>

#include "cluster/identity/sources.h"

namespace trainer::cluster {
namespace {

std::string first_that_is_set(const config::Environment& environment,
                              std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (std::string text = read_variable(environment, name); !text.empty()) return text;
  }
  return "";
}

// Returns the first host of a job of Flux: the command prints a list of this broker's hosts, such
// as n[1-4]. Returns "" if it fails.
std::string first_host_of_flux() {
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen("flux hostlist local", "r"), ::pclose);
  std::string list(1 << 16, '\0');
  list.resize(pipe ? std::fread(list.data(), 1, list.size(), pipe.get()) : 0);
  list = list.substr(0, list.find_first_of(" \n"));
  return list.empty() ? "" : expand_nodelist(list)[0];
}

}  // namespace

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

std::optional<Claim> claim_of_flux(const config::Environment& environment) {
  auto claim = make_claim(environment, "FLUX_TASK_RANK", "FLUX_JOB_SIZE");
  if (!claim) return {};
  Identity& identity = claim->identity;
  identity.source = "Flux";
  identity.local_rank = read_number(environment, "FLUX_TASK_LOCAL_ID");
  identity.job = first_that_is_set(environment, {"FLUX_JOB_ID"});
  claim->one_host = identity.size == 1 || read_number(environment, "FLUX_JOB_NNODES") == 1;
  if (!claim->one_host && read_variable(environment, "MASTER_ADDR").empty()) {
    identity.master.host = first_host_of_flux();
  }
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

std::optional<Claim> claim_of_pmix(const config::Environment& environment,
                                   std::optional<int> world_size) {
  const auto rank = read_number(environment, "PMIX_RANK");
  for (const char* size : {"OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"}) {
    if (!world_size) world_size = read_number(environment, size);
  }
  if (!rank || !world_size) return {};
  Claim claim;
  claim.identity.rank = *rank;
  claim.identity.size = *world_size;
  claim.identity.source = "PMIx";
  claim.identity.job = first_that_is_set(environment, {"PMIX_NAMESPACE"});
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
