#include "base/text.h"
#include "cluster/identity/sources.h"

namespace trainer::cluster {
namespace {

// A variable that a launcher sets for each of several processes, and how to start them as one job.
struct Trace {
  const char* variable;
  const char* remedy;
  const char* of_one = "";  // the value that one process has
};
constexpr Trace kTraces[] = {
    {"SLURM_NTASKS", "start the ranks with srun: srun trainer train CONFIG", "1"},
    {"PMIX_RANK", "give the number of processes: trainer train CONFIG --world-size N"},
    {"GROUP_RANK", "set RANK and WORLD_SIZE too, as torchrun does"},
    {"MASTER_ADDR", "set RANK and WORLD_SIZE too, or give --rank and --world-size"},
};

}  // namespace

Notice launch_notice(const Identity& identity, const config::Environment& environment) {
  if (identity.source == "PET_NODE_RANK") {
    const std::string text = read_variable(environment, kProcessesPerNode);
    if (text.empty() || text == "1") return {};
    return Notice::note(
        concat(kProcessesPerNode, " is ", text,
               ": a node is one rank here, whose process uses all cores, or as many "
               "GPUs as parallel.gpus, for which it is the value of NUM_GPUS"));
  }
  if (identity.source != "nothing") return {};
  for (const Trace& trace : kTraces) {
    const std::string text = read_variable(environment, trace.variable);
    if (text.empty() || text == trace.of_one) continue;
    return concat(trace.variable, " is ", text, ", but this process trains alone; to train in one ",
                  "job with others, ", trace.remedy);
  }
  for (const char* variable : {"JOB_COMPLETION_INDEX", "RAY_ADDRESS"}) {
    const std::string text = read_variable(environment, variable);
    if (text.empty()) continue;
    return Notice::note(concat(variable, " is ", text, "; this process trains alone: a job of ",
                               "several hosts needs parallel.hosts"));
  }
  return {};
}

std::string gpus_per_node(const config::Environment& environment) {
  const std::string text = read_variable(environment, kProcessesPerNode);
  if (text.empty() || !read_variable(environment, "NUM_GPUS").empty()) return "";
  if (text != "gpu" && parse_integer(text).value_or(0) < 1) return "";
  if (identify({}, environment).source != "PET_NODE_RANK") return "";
  return text == "gpu" ? "all" : text;
}

}  // namespace trainer::cluster
