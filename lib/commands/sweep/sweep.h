// A sweep trains one run per point of a grid, each in a process of its own. A crash or a kill ends
// one point and not the sweep, and each point frees its memory at its end.
//
//   <sweep>/sweep.json     config, axes and points, for `trainer report` and later sweeps
//   <sweep>/features/      the features of frozen layers, which all points share
//   <sweep>/<point>/       the run of a point, and errors.log, the last process's complaints
//   <sweep>/table.csv, table.json, table.md, report.html, *.svg   what came of all points
#pragma once

#include <string>
#include <vector>

#include "commands/load_config/load_config.h"
#include "commands/sweep/sweep_print.h"
#include "results/sweeps/point_state.h"

namespace trainer::commands {

// Returns `train` and its arguments for a point, behind the program's name.
std::vector<std::string> make_arguments(const results::SweepPlan& plan,
                                        const results::Point& point);

// Trains the points that have not finished, one after the other, each with --resume. A point that
// fails does not end the sweep; a signal does, after the point in training has saved. `program`:
// the path of this program. Throws ConfigError while another process runs the sweep.
std::vector<results::PointState> run_sweep(const results::SweepPlan& plan, const Path& program,
                                           SweepPrinter& printer);

// The arguments of `sweep` and `crossval`.
struct PointsArguments : ConfigArguments {
  std::string folder;    // the folder of the points; see plan_sweep() and plan_crossval()
  bool collect = false;  // reads what has been trained, and trains nothing
};

// Returns the path of this program.
Path find_program();
// Trains the points of a written plan and prints their progress with the accuracy of `checkpoint`,
// or with `collect` reads what has been trained.
std::vector<results::PointState> train_or_collect(const PointsArguments& arguments,
                                                  const results::SweepPlan& plan,
                                                  results::ScoredCheckpoint checkpoint,
                                                  const Context& context);

}  // namespace trainer::commands
