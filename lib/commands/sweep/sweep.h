// A sweep trains one run per point of a grid, each in a process of its own. A crash or a kill ends
// one point and not the sweep, and each point frees its memory at its end.
//
//   <sweep>/sweep.json     config, axes and points, for `trainer report` and later sweeps
//   <sweep>/features/      the features of frozen layers, which all points share
//   <sweep>/<point>/       the run of a point, and errors.log, the last process's complaints
//   <sweep>/table.csv, table.json, table.md, report.html, *.svg   what came of all points
#pragma once

#include <cstddef>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "commands/load_config/load_config.h"
#include "results/sweeps/point_state.h"
#include "results/sweeps/summary.h"

namespace trainer::commands {

// Returns `train` and its arguments for a point, behind the program's name.
std::vector<std::string> make_arguments(const results::SweepPlan& plan,
                                        const results::Point& point);

struct SweepPrinterOptions {
  bool json = false;   // prints one event per point that has ended, and nothing else
  bool quiet = false;  // prints no progress
  bool is_terminal = false;
  results::CheckpointChoice checkpoint =
      results::CheckpointChoice::kBest;  // the checkpoint of an event's accuracy
};

// Prints one line per point. On a terminal, the line of the point in training is rewritten.
class SweepPrinter {
 public:
  // `out` must outlive the printer. `points` is the number of points of the sweep.
  SweepPrinter(const SweepPrinterOptions& options, std::size_t points, std::ostream& out);

  // A point begins, goes on (steps of total), or is over. `eta_seconds`: to the end of the sweep,
  // nothing before the first step.
  void on_start(std::size_t index, const results::Point& point);
  void on_progress(std::size_t index, std::int64_t step, std::int64_t total,
                   std::optional<double> eta_seconds);
  void on_end(std::size_t index, const results::PointState& state,
              std::optional<double> eta_seconds);

 private:
  std::string place(std::size_t index) const;

  SweepPrinterOptions options_;
  bool is_silent_;
  std::size_t points_;
  std::string name_;
  std::ostream& out_;
};

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
                                                  results::CheckpointChoice checkpoint,
                                                  const Context& context);

}  // namespace trainer::commands
