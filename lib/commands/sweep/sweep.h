// A sweep trains one run per point of a grid, each in a process of its own. A crash or a kill ends
// one point and not the sweep, and each point frees its memory at its end.
//
//   <sweep>/sweep.json     config, axes and points, for `trainer report` and later sweeps
//   <sweep>/features/      the features of frozen layers, which all points share
//   <sweep>/<point>/       the run of a point, and errors.log, the last process's complaints
//   <sweep>/table.csv, table.json, table.md, report.html, *.svg   what came of all points
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "commands/run_files/run_files.h"
#include "commands/sweep/grid.h"

namespace trainer::commands {

struct SweepPlan {
  std::string config;                       // path of the file
  std::string name;                         // the name in the config
  std::vector<config::Override> overrides;  // overrides for all points
  config::Environment environment;          // the environment of this process
  std::vector<Axis> axes;
  std::vector<Point> points;
  Path folder;
};
// Reads every point's config, so that a mistake in one of them is found before the first starts.
// `folder`: runs/<name>_sweep when empty. Throws ConfigError.
SweepPlan plan_sweep(const std::string& config, std::vector<Axis> axes,
                     const std::vector<config::Override>& overrides,
                     const config::Environment& environment, const Path& folder,
                     std::int64_t max_points = kMaxPoints);

// Throws a ConfigError if a point's folder has a run of another config than the point has now, and
// a DataError for a link inside the folder of the sweep.
void check_runs(const SweepPlan& plan);
// Writes sweep.json. Throws a ConfigError for a folder that holds files but no sweep, and for one
// that has a run of another config in the place of a point.
void write_plan(const SweepPlan& plan);
// The points, axes and name that sweep.json has. Throws DataError.
SweepPlan read_plan(const Path& folder);

// Loads the config that a point trains. Throws ConfigError.
config::Config load_point_config(const SweepPlan& plan, const Point& point);
// Returns `train` and its arguments for a point, behind the program's name.
std::vector<std::string> make_arguments(const SweepPlan& plan, const Point& point);

struct PointState {
  enum class Kind {
    kFinished,
    kSkipped,  // had finished before this sweep
    kFailed,
    kDamaged,  // a file of its run cannot be read
    kStopped,  // stopped by a signal; the next sweep resumes it
    kNotStarted
  } kind = Kind::kNotStarted;
  Point point;
  int code = 0;                 // kFailed, kDamaged: the exit code
  std::string message;          // kFailed: the last error of errors.log; kDamaged: the error
  std::optional<RunFiles> run;  // kFinished, kSkipped
  bool is_done() const { return kind == Kind::kFinished || kind == Kind::kSkipped; }
  bool has_failed() const { return kind == Kind::kFailed || kind == Kind::kDamaged; }
};
const char* to_string(PointState::Kind kind);  // "finished", "finished earlier", "failed", ...

// Returns the exit code of a sweep: that of an interruption if points are left for later, else that
// of the first point that failed, else kExitOk.
int find_exit_code(const std::vector<PointState>& points);

// Receives the progress of a sweep.
class SweepObserver {
 public:
  virtual ~SweepObserver() = default;
  // A point begins, goes on (steps of total), or is over. `eta_seconds`: to the end of the sweep,
  // nothing before the first step.
  virtual void on_start(std::size_t index, const Point& point) = 0;
  virtual void on_progress(std::size_t index, std::int64_t step, std::int64_t total,
                           std::optional<double> eta_seconds) = 0;
  virtual void on_end(std::size_t index, const PointState& state,
                      std::optional<double> eta_seconds) = 0;
};

// Trains the points that have not finished, one after the other, each with --resume. A point that
// fails does not end the sweep; a signal does, after the point in training has saved. `program`:
// the path of this program. Throws ConfigError while another process runs the sweep.
std::vector<PointState> run_sweep(const SweepPlan& plan, const Path& program,
                                  SweepObserver& observer);
// Reads the states of the points from their folders, without training.
std::vector<PointState> collect(const SweepPlan& plan);
bool has_damaged(const std::vector<PointState>& points);

}  // namespace trainer::commands
