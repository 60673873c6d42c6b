#include "results/sweeps/plan.h"

#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "checkpoint/run_links.h"
#include "results/read_json.h"
#include "results/write_json.h"

namespace trainer::results {
namespace {

// A finished run counts for a point only if it was made as the point would be made now.
void check_same_config(const SweepPlan& plan, const Point& point, const Path& folder) {
  const Path file = folder / "config.yaml";
  if (!std::filesystem::exists(file)) return;
  const config::Config before =
      config::parse_recorded_config(read_text_file(file), file.string()).config;
  const auto changes = config::resume_changes(before, load_point_config(plan, point));
  if (changes.empty()) return;
  const config::Change& first = changes.front();
  throw ConfigError({}, printable(folder.string()), " holds a run of another config (", first.key,
                    " was ", first.before, ", is ", first.now,
                    "): choose another folder with --dir, or remove this one");
}

}  // namespace

static void fields(FieldVisitor& v, Axis& axis) {
  v("key", axis.key, "The key of the config.");
  v("values", axis.values, "Its values, as YAML.");
}

config::Environment make_environment(const SweepPlan& plan, const Point& point) {
  config::Environment environment = plan.environment;
  // Lists of several values are the sweep's; a run gets one value or none.
  for (const char* name : {"NUM_GPUS", "BATCH_SIZE", "LEARNING_RATE", "SEEDS"}) {
    environment.erase(name);
  }
  for (const auto& [name, value] : point.environment) environment[name] = value;
  return environment;
}

std::vector<config::Override> make_overrides(const SweepPlan& plan, const Point& point) {
  std::vector<config::Override> overrides = plan.overrides;
  for (const auto& [key, value] : point.values) {
    overrides.push_back({key, value, "--over", config::Override::Syntax::kYaml});
  }
  return overrides;
}

config::Config load_point_config(const SweepPlan& plan, const Point& point) {
  return config::load_config(plan.config, make_overrides(plan, point),
                             make_environment(plan, point))
      .config;
}

SweepPlan plan_sweep(const std::string& config, std::vector<Axis> axes,
                     const std::vector<config::Override>& overrides,
                     const config::Environment& environment, const Path& folder,
                     std::int64_t max_points) {
  SweepPlan plan{config, "", overrides, environment, std::move(axes), {}, folder};
  plan.points = make_points(plan.axes, max_points);
  for (const Point& point : plan.points) plan.name = load_point_config(plan, point).name;
  if (plan.folder.empty()) plan.folder = Path("runs") / (plan.name + "_sweep");
  return plan;
}

void check_runs(const SweepPlan& plan) {
  checkpoint::check_no_links(plan.folder);
  for (const Point& point : plan.points) {
    check_same_config(plan, point, plan.folder / point.name);
  }
}

void write_plan(const SweepPlan& plan) {
  const Path file = plan.folder / "sweep.json";
  const bool is_sweep = std::filesystem::exists(file);
  if (std::filesystem::exists(plan.folder) && !std::filesystem::is_empty(plan.folder) &&
      !is_sweep) {
    throw ConfigError({}, printable(plan.folder.string()),
                      " holds files but no sweep.json, so it is not the folder of a "
                      "sweep; choose another with --dir");
  }
  check_runs(plan);
  std::filesystem::create_directories(plan.folder);
  write_file_atomic(file, to_line(plan));
}

void fields(FieldVisitor& v, SweepPlan& plan) {
  v("name", plan.name, "The name in the config.");
  v("config", plan.config, "The path of the config.");
  v("axes", plan.axes, "The keys that take several values.");
}

SweepPlan read_plan(const Path& folder) {
  const std::string file = (folder / "sweep.json").string();
  std::optional<SweepPlan> plan = read_result<SweepPlan>({file, ""});
  if (!plan) throw DataError(file, "does not exist");
  plan->folder = folder;
  for (const Axis& axis : plan->axes) {
    if (axis.values.empty()) throw DataError(file, "is damaged: values is an empty list");
  }
  constexpr std::int64_t kMaxStoredPoints = 1'000'000;
  try {
    plan->points = make_points(plan->axes, kMaxStoredPoints);
  } catch (const ConfigError& error) {
    throw DataError(file, "is damaged: ", error.what());
  }
  return *std::move(plan);
}

}  // namespace trainer::results
