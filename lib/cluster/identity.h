// The identity of a process in a job: its rank, the number of ranks, and the address of rank
// 0.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/notice.h"
#include "config/config.h"

namespace trainer::cluster {

struct Address {
  std::string host;  // a name or a numeric address, without brackets
  int port = 0;
  bool operator==(const Address&) const = default;
};
std::string to_string(const Address& address);  // "host:port", "[::1]:port"
// Parses host:port with a port from 1 to 65535; nullopt for any other text.
std::optional<Address> parse_address(std::string_view text);
// localhost, 127.x.x.x or ::1.
bool is_loopback(std::string_view host);

// The tasks of a TF_CONFIG, each by index. `master` is read as chief.
struct Cluster {
  std::vector<Address> chief, worker, ps, evaluator;
  bool operator==(const Cluster&) const = default;
};

enum class Role { kChief, kWorker, kParameterServer, kEvaluator };
// The words of TF_CONFIG.
constexpr auto spellings(Role) {
  using enum Role;
  return std::to_array<Spelling<Role>>({{kChief, "chief"},
                                        {kWorker, "worker"},
                                        {kParameterServer, "ps"},
                                        {kEvaluator, "evaluator"}});
}
inline std::string to_string(Role role) { return std::string(spell(role)); }

struct Identity {
  Role role = Role::kChief;  // rank 0 is the chief
  int index = 0;             // number among the tasks of its type in TF_CONFIG; else the rank
  int rank = 0;              // the number among chief and workers; -1 for ps and evaluator
  int size = 1;              // chief and workers together
  // The number of this rank among those of its host, and their count. Both are set when the source
  // gives them or all ranks are on one host; local_size only together with local_rank.
  std::optional<int> local_rank, local_size;
  Address master;      // the address where rank 0 listens; port 0 when size is 1
  Cluster cluster;     // the one of TF_CONFIG, or empty
  std::string job;     // the launcher's name for this start of the job; "" when it has none
  std::string secret;  // all processes of the job share it; "" for none
  std::string build;   // version and commit of the program, the same for all processes
  std::string source;  // "--rank", "TF_CONFIG", "RANK", "Slurm", ... or "nothing", for messages
};

// "worker:1 at host:port" or "rank 1": how messages name a rank before it has joined.
std::string rank_name(const Identity& identity, int rank);
// Returns the facts that must be equal on all ranks, one per line.
std::string cluster_text(const Identity& identity);

// Returns whether other hosts can reach this process and no secret keeps unauthenticated peers out.
bool accepts_unauthenticated_peers(const Identity& identity);

// --rank, --world-size, --master host:port, --secret-file.
struct IdentityFlags {
  std::optional<int> rank{};
  std::optional<int> world_size{};
  std::string master{};
  std::string secret_file{};
  std::vector<std::string> hosts{};  // parallel.hosts: the nodes of the job by rank
};

// Decides by the first of these that is there:
//   1. the flags --rank and --world-size
//   2. TF_CONFIG: {"cluster": {"chief": [...], "worker": [...], ...}, "task": {"type": ...,
//      "index": ...}}
//   3. RANK and WORLD_SIZE (torchrun, `trainer launch`)
//   4. OMPI_COMM_WORLD_RANK (mpirun of Open MPI)
//   5. FLUX_TASK_RANK (flux run)
//   6. PMI_RANK (mpiexec of MPICH and its derivatives)
//   7. SLURM_PROCID within a step of srun
//   8. PMIX_RANK (PRRTE's prterun; the size is that of Open MPI, Slurm or --world-size)
//   9. JAX_PROCESS_ID (the JAX runtime of Kubeflow Trainer)
//  10. PET_NODE_RANK (the torch runtime of Kubeflow Trainer)
//  11. flags.hosts, with JOB_COMPLETION_INDEX (an indexed Job of Kubernetes) or this host's name
// The nearest launcher comes first: mpirun starts its helpers as a Slurm step, so the variables of
// Slurm may describe those. Hence torchrun, mpirun, flux and mpiexec may differ from what surrounds
// them. Sources 9 to 11 number nodes, on which any launcher may start ranks, so that all others
// may differ from them. Any other two sources that differ in rank or size are an error.
//
// --master, or MASTER_ADDR and MASTER_PORT, name rank 0's address where the source does not; for
// Slurm and Flux it is the first host of the job, for ranks of one host 127.0.0.1, and the port
// follows from the job's id. Of flags.hosts it is the first, with the port in the list, else
// MASTER_PORT, else 29500.
//
// The secret is the content of flags.secret_file, or TRAINER_SECRET.
//
// Throws ConfigError.
Identity identify(const IdentityFlags& flags, const config::Environment& environment);

// Returns a notice of a variable which shows that a launcher started this process beside others,
// although `identity` is alone, or that a node has one rank where its launcher planned several.
Notice launch_notice(const Identity& identity, const config::Environment& environment);

// The variable in which the torch runtime of Kubeflow Trainer has its processes per node.
inline constexpr char kProcessesPerNode[] = "PET_NPROC_PER_NODE";
// Returns the number of GPUs per node that the launcher of `environment` asks for, as NUM_GPUS has
// it: PET_NPROC_PER_NODE if it is a number or `gpu`, which is "all". Returns "" for other values,
// where NUM_GPUS is set, and where another source decides the rank.
std::string gpus_per_node(const config::Environment& environment);

// Slurm's short form of host names: "n[1-3,07],login" is n1 n2 n3 n07 login. Throws ConfigError.
std::vector<std::string> expand_nodelist(std::string_view text);

}  // namespace trainer::cluster
