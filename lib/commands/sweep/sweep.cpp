#include "commands/sweep/sweep.h"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <thread>

#include "base/error.h"
#include "base/formats/json.h"
#include "base/formats/json_member.h"
#include "base/numbers/seconds.h"
#include "base/text.h"
#include "checkpoint/lock.h"
#include "checkpoint/run_links.h"
#include "commands/sweep/child.h"
#include "commands/sweep/eta.h"

namespace trainer::commands {
namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

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

// Returns the text after the last "error: " in the output of a process; "" if there is none.
std::string last_error(const Path& path) {
  constexpr std::string_view kMark = "error: ";
  if (!std::filesystem::exists(path)) return "";
  const std::string text = read_text_file(path);
  const auto mark = text.rfind(kMark);
  if (mark == std::string::npos) return "";
  const auto begin = mark + kMark.size();
  return text.substr(begin, text.find('\n', begin) - begin);
}

// A finished run counts for a point only if it was made as the point would be made now.
void check_same_config(const SweepPlan& plan, const Point& point, const Path& folder) {
  const Path file = folder / "config.yaml";
  if (!std::filesystem::exists(file)) return;
  const config::Config before =
      config::parse_recorded_config(read_text_file(file), file.string()).config;
  const auto changes = config::resume_changes(before, load_point_config(plan, point));
  if (changes.empty()) return;
  const config::Change& first = changes.front();
  throw ConfigError({}, concat(printable(folder.string()), " holds a run of another config (",
                               first.key, " was ", first.before, ", is ", first.now,
                               "): choose another folder with --dir, or remove this one"));
}

constexpr double kPatience = 5;  // seconds

// The run of a sweep that was killed dies with it, but not in the same moment. If the folder stays
// locked, the error of the run names the process that holds it.
void wait_until_free(const Path& folder) {
  for (const Clock::time_point start = Clock::now(); seconds_since(start) < kPatience;) {
    try {
      const checkpoint::RunLock lock(folder);
      return;
    } catch (const Error&) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
}

// Held while a sweep trains, so that two of them do not train its points.
checkpoint::RunLock lock_sweep(const Path& folder) {
  try {
    return checkpoint::RunLock(folder);
  } catch (const Error& error) {
    if (error.code() != kExitConfig) throw;
    throw ConfigError({}, concat(printable(folder.string()),
                                 ": another process trains this sweep; wait for it to end, stop "
                                 "it, or choose another folder with --dir"));
  }
}

// Reads the files of a point's run, or marks the point as damaged.
void read_files(const Path& folder, PointState& state) {
  try {
    state.run = read_run(folder);
  } catch (const Error& error) {
    state.kind = PointState::Kind::kDamaged;
    state.code = kExitData;
    state.message = concat(error.what(), "; remove the folder ", printable(folder.string()),
                           ", and the same command trains this point again");
  }
}

class SweepRunner {
 public:
  SweepRunner(const SweepPlan& plan, const Path& program, SweepObserver& observer)
      : plan_(plan), program_(program), observer_(observer), eta_(plan.points.size()) {}

  // False when a signal asks the sweep to stop.
  bool run(std::size_t index, PointState& state) {
    const Path folder = plan_.folder / state.point.name;
    const bool finished = is_finished(folder);
    bool goes_on = true;
    if (finished) {
      state.kind = PointState::Kind::kSkipped;
    } else {
      try {
        goes_on = train(index, folder, state);
      } catch (const std::exception& error) {
        // A point can fail before its process runs: a value may be too long for a command line.
        const auto* own = dynamic_cast<const Error*>(&error);
        state.kind = PointState::Kind::kFailed;
        state.code = own != nullptr ? own->code() : int{kExitData};
        state.message = error.what();
      }
    }
    if (state.is_done()) read_files(folder, state);
    eta_.end(!finished, seconds_since(begin_));
    observer_.on_end(index, state, eta_.between());
    return goes_on;
  }

 private:
  bool train(std::size_t index, const Path& folder, PointState& state) {
    std::filesystem::create_directories(folder);
    wait_until_free(folder);
    eta_.start(seconds_since(begin_));
    observer_.on_start(index, state.point);
    ChildOptions child;
    child.command = {program_};
    for (std::string& word : make_arguments(plan_, state.point)) child.command.push_back(word);
    child.environment = make_environment(plan_, state.point);
    child.errors = folder / "errors.log";
    std::filesystem::remove(child.errors);
    child.on_line = [&](const std::string& line) { read_event(index, line); };
    const ChildResult result = run_child(child);
    state.code = result.code;
    if (result.code == kExitOk && is_finished(folder)) {
      state.kind = PointState::Kind::kFinished;
    } else if (result.signalled || result.code == kExitInterrupted) {
      state.kind = PointState::Kind::kStopped;
    } else {
      state.kind = PointState::Kind::kFailed;
      state.message = last_error(child.errors);
      if (state.message.empty()) state.message = concat("ended with exit code ", result.code);
    }
    return !result.signalled;
  }

  void read_event(std::size_t index, const std::string& line) {
    const Json event = Json::parse(line, nullptr, false);
    if (!event.is_object()) return;
    const std::string name = event.value("event", "");
    if (name == "start") {
      total_ = event.value("total_steps", std::int64_t{0});
    } else if (name == "step" && total_ > 0) {
      const auto step = event.value("step", std::int64_t{0});
      eta_.advance(static_cast<double>(step) / static_cast<double>(total_), seconds_since(begin_));
      observer_.on_progress(index, step, total_, eta_.within());
    }
  }

  const SweepPlan& plan_;
  const Path& program_;
  SweepObserver& observer_;
  const Clock::time_point begin_ = Clock::now();
  Eta eta_;
  std::int64_t total_ = 0;  // steps of the present point
};

std::vector<PointState> make_states(const SweepPlan& plan) {
  std::vector<PointState> states;
  for (const Point& point : plan.points) {
    states.emplace_back();
    states.back().point = point;
  }
  return states;
}

}  // namespace

config::Config load_point_config(const SweepPlan& plan, const Point& point) {
  return config::load_config(plan.config, make_overrides(plan, point),
                             make_environment(plan, point))
      .config;
}

const char* to_string(PointState::Kind kind) {
  switch (kind) {
    case PointState::Kind::kFinished:
      return "finished";
    case PointState::Kind::kSkipped:
      return "finished earlier";
    case PointState::Kind::kFailed:
      return "failed";
    case PointState::Kind::kDamaged:
      return "damaged";
    case PointState::Kind::kStopped:
      return "stopped";
    case PointState::Kind::kNotStarted:
      return "not started";
  }
  throw std::logic_error("a state without a name");
}

int find_exit_code(const std::vector<PointState>& points) {
  int code = kExitOk;
  for (const PointState& point : points) {
    // Only a signal leaves a point for later.
    const bool is_left =
        point.kind == PointState::Kind::kStopped || point.kind == PointState::Kind::kNotStarted;
    if (is_left) return kExitInterrupted;
    if (point.has_failed() && code == kExitOk) {
      code = point.code != 0 ? point.code : kExitCheck;
    }
  }
  return code;
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
    throw ConfigError({}, concat(printable(plan.folder.string()),
                                 " holds files but no sweep.json, so it is not the folder of a "
                                 "sweep; choose another with --dir"));
  }
  check_runs(plan);
  std::filesystem::create_directories(plan.folder);
  Json json{{"name", plan.name}, {"config", plan.config}};
  json["axes"] = Json::array();
  for (const Axis& axis : plan.axes) {
    json["axes"].push_back({{"key", axis.key}, {"values", axis.values}});
  }
  write_file_atomic(file, to_json_line(json) + "\n");
}

SweepPlan read_plan(const Path& folder) {
  const Path file = folder / "sweep.json";
  SweepPlan plan;
  plan.folder = folder;
  try {
    const Json json = Json::parse(read_text_file(file));
    plan.name = read_member<std::string>(json, "name");
    plan.config = read_member<std::string>(json, "config");
    for (const Json& axis : member(json, "axes")) {
      plan.axes.push_back({read_member<std::string>(axis, "key"),
                           read_member<std::vector<std::string>>(axis, "values")});
      if (plan.axes.back().values.empty()) throw std::range_error("values is an empty list");
    }
  } catch (const Json::exception& error) {
    throw DataError(file.string(),
                    concat("is not what a sweep has written: ", describe_json_error(error)));
  } catch (const std::range_error& error) {
    throw DataError(file.string(), concat("is not what a sweep has written: ", error.what()));
  }
  constexpr std::int64_t kMaxStoredPoints = 1'000'000;
  try {
    plan.points = make_points(plan.axes, kMaxStoredPoints);
  } catch (const ConfigError& error) {
    throw DataError(file.string(), concat("is not what a sweep has written: ", error.what()));
  }
  return plan;
}

std::vector<std::string> make_arguments(const SweepPlan& plan, const Point& point) {
  std::vector<std::string> words{"train",    plan.config, "--json",
                                 "--resume", "--run-dir", (plan.folder / point.name).string()};
  words.insert(words.end(), {"--features-dir", (plan.folder / "features").string()});
  for (const config::Override& value : make_overrides(plan, point)) {
    words.insert(words.end(), {"--set", config::to_setting(value)});
  }
  return words;
}

std::vector<PointState> run_sweep(const SweepPlan& plan, const Path& program,
                                  SweepObserver& observer) {
  const checkpoint::RunLock lock = lock_sweep(plan.folder);
  std::vector<PointState> states = make_states(plan);
  SweepRunner runner(plan, program, observer);
  SignalGuard signals;
  for (std::size_t i = 0; i < states.size(); ++i) {
    if (signals.take() || !runner.run(i, states[i])) break;
  }
  return states;
}

std::vector<PointState> collect(const SweepPlan& plan) {
  std::vector<PointState> states = make_states(plan);
  for (PointState& state : states) {
    const Path folder = plan.folder / state.point.name;
    if (!std::filesystem::exists(folder)) continue;
    if (std::filesystem::exists(folder / "run.json")) read_files(folder, state);
    if (state.kind == PointState::Kind::kDamaged) continue;
    if (state.run && state.run->finished) {
      state.kind = PointState::Kind::kSkipped;
      continue;
    }
    state.run.reset();
    state.message = last_error(folder / "errors.log");
    state.kind = state.message.empty() ? PointState::Kind::kStopped : PointState::Kind::kFailed;
  }
  return states;
}

bool has_damaged(const std::vector<PointState>& points) {
  return std::ranges::any_of(
      points, [](const PointState& point) { return point.kind == PointState::Kind::kDamaged; });
}

}  // namespace trainer::commands
