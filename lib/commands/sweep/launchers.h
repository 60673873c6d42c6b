// Sweeps whose points are started by others: as text that these take.
#pragma once

#include <string>

#include "commands/sweep/sweep.h"

namespace trainer::commands {

// A Slurm job array with a task a point, for sbatch. `program` is the path of this program.
std::string slurm_script(const results::SweepPlan& plan, const std::string& program);

// A Job manifest a point, YAML documents one after another, for kubectl apply -f -. A point asks
// for as many GPUs as it has replicas, unless it is for the CPU.
std::string kubernetes_jobs(const results::SweepPlan& plan, const std::string& image);

}  // namespace trainer::commands
