#include "commands/sweep/points.h"

#include <filesystem>

#include "commands/sweep/sweep_print.h"

namespace trainer::commands {

Path find_program() { return std::filesystem::read_symlink("/proc/self/exe"); }

std::vector<results::PointState> train_or_collect(const PointsArguments& arguments,
                                                  const results::SweepPlan& plan,
                                                  results::ScoredCheckpoint checkpoint,
                                                  const Context& context) {
  if (arguments.collect) return results::collect(plan);
  SweepPrinter printer({arguments.json, arguments.quiet, context.out_is_terminal, checkpoint},
                       plan.points.size(), context.out);
  return run_sweep(plan, find_program(), printer);
}

}  // namespace trainer::commands
