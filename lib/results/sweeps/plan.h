// What a sweep trains: the points of a grid, and the config of each.
#pragma once

#include <string>
#include <vector>

#include "base/files/files.h"
#include "results/field.h"
#include "results/sweeps/grid.h"

namespace trainer::results {

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
// The keys of sweep.json.
void fields(FieldVisitor& v, SweepPlan& plan);
// The points, axes and name that sweep.json has. Throws DataError.
SweepPlan read_plan(const Path& folder);

// Loads the config that a point trains. Throws ConfigError.
config::Config load_point_config(const SweepPlan& plan, const Point& point);
// Returns the variables and the overrides with which a point is trained.
config::Environment make_environment(const SweepPlan& plan, const Point& point);
std::vector<config::Override> make_overrides(const SweepPlan& plan, const Point& point);

}  // namespace trainer::results
