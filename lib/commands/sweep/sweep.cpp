#include "commands/sweep/sweep.h"

#include <chrono>
#include <filesystem>
#include <thread>

#include "base/error.h"
#include "base/formats/duration.h"
#include "base/formats/table.h"
#include "base/numbers/seconds.h"
#include "base/text.h"
#include "checkpoint/lock.h"
#include "commands/sweep/child.h"
#include "commands/sweep/eta.h"
#include "results/read_json.h"
#include "results/sweeps/table.h"
#include "results/train_events.h"

namespace trainer::commands {
namespace {

constexpr const char* kClearRestOfLine = "\x1b[K";  // an escape sequence of terminals

// Returns "1:05" for 65 seconds, and "?" for nothing.
std::string format_eta(std::optional<double> seconds) {
  return seconds ? clock_time(*seconds) : "?";
}

using Clock = std::chrono::steady_clock;

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
    throw ConfigError({}, printable(folder.string()),
                      ": another process trains this sweep; wait for it to end, stop "
                      "it, or choose another folder with --dir");
  }
}

class SweepRunner {
 public:
  SweepRunner(const results::SweepPlan& plan, const Path& program, SweepPrinter& printer)
      : plan_(plan), program_(program), printer_(printer), eta_(plan.points.size()) {}

  // False when a signal asks the sweep to stop.
  bool run(std::size_t index, results::PointState& state) {
    const Path folder = plan_.folder / state.point.name;
    const bool finished = results::is_finished(folder);
    bool goes_on = true;
    if (finished) {
      state.kind = results::PointState::Kind::kSkipped;
    } else {
      try {
        goes_on = train(index, folder, state);
      } catch (const std::exception& error) {
        // A point can fail before its process runs: a value may be too long for a command line.
        const auto* own = dynamic_cast<const Error*>(&error);
        state.kind = results::PointState::Kind::kFailed;
        state.code = own != nullptr ? own->code() : int{kExitData};
        state.message = error.what();
      }
    }
    if (state.is_done()) results::read_point_files(folder, state);
    eta_.end(!finished, seconds_since(begin_));
    printer_.on_end(index, state, eta_.between());
    return goes_on;
  }

 private:
  bool train(std::size_t index, const Path& folder, results::PointState& state) {
    std::filesystem::create_directories(folder);
    wait_until_free(folder);
    eta_.start(seconds_since(begin_));
    printer_.on_start(index, state.point);
    ChildOptions child;
    child.command = {program_};
    for (std::string& word : make_arguments(plan_, state.point)) child.command.push_back(word);
    child.environment = results::make_environment(plan_, state.point);
    child.errors = folder / "errors.log";
    std::filesystem::remove(child.errors);
    child.on_line = [&](const std::string& line) { read_event(index, line); };
    const ChildResult result = run_child(child);
    state.code = result.code;
    if (result.code == kExitOk && results::is_finished(folder)) {
      state.kind = results::PointState::Kind::kFinished;
    } else if (result.signalled || result.code == kExitInterrupted) {
      state.kind = results::PointState::Kind::kStopped;
    } else {
      state.kind = results::PointState::Kind::kFailed;
      state.message = results::find_last_error(folder);
      if (state.message.empty()) state.message = concat("ended with exit code ", result.code);
    }
    return !result.signalled;
  }

  void read_event(std::size_t index, const std::string& line) {
    const auto found = results::find_in_line<results::LineKeys>(line);
    if (!found) return;
    if (found->event == "start") {
      total_ = found->total_steps;
    } else if (found->event == "step" && total_ > 0) {
      eta_.advance(static_cast<double>(found->step) / static_cast<double>(total_),
                   seconds_since(begin_));
      printer_.on_progress(index, found->step, total_, eta_.within());
    }
  }

  const results::SweepPlan& plan_;
  const Path& program_;
  SweepPrinter& printer_;
  const Clock::time_point begin_ = Clock::now();
  Eta eta_;
  std::int64_t total_ = 0;  // steps of the present point
};

}  // namespace

SweepPrinter::SweepPrinter(const SweepPrinterOptions& options, std::size_t points,
                           std::ostream& out)
    : options_(options), is_silent_(options.quiet || options.json), points_(points), out_(out) {}

void SweepPrinter::on_start(std::size_t index, const results::Point& point) {
  name_ = point.name;
  if (!is_silent_ && !options_.is_terminal)
    out_ << place(index) << name_ << ": starts" << std::endl;
}

void SweepPrinter::on_progress(std::size_t index, std::int64_t step, std::int64_t total,
                               std::optional<double> eta_seconds) {
  if (is_silent_ || !options_.is_terminal) return;
  out_ << '\r' << place(index) << name_ << "  step " << step << '/' << total << "  eta "
       << format_eta(eta_seconds) << kClearRestOfLine << std::flush;
}

void SweepPrinter::on_end(std::size_t index, const results::PointState& state,
                          std::optional<double> eta_seconds) {
  if (options_.json)
    out_ << results::point_json(state, options_.checkpoint, eta_seconds) << std::endl;
  if (is_silent_) return;
  if (options_.is_terminal) out_ << '\r';
  out_ << place(index) << state.point.name << ": " << to_string(state.kind);
  if (state.has_failed()) out_ << ": " << printable(state.message);
  if (state.run) out_ << ", " << fixed(results::images_per_second(*state.run), 1) << " images/s";
  if (eta_seconds && *eta_seconds > 0) out_ << ", eta " << format_eta(eta_seconds);
  out_ << (options_.is_terminal ? kClearRestOfLine : "") << std::endl;
}

std::string SweepPrinter::place(std::size_t index) const {
  return concat("[", index + 1, "/", points_, "] ");
}

std::vector<std::string> make_arguments(const results::SweepPlan& plan,
                                        const results::Point& point) {
  std::vector<std::string> words{"train",    plan.config, "--json",
                                 "--resume", "--run-dir", (plan.folder / point.name).string()};
  words.insert(words.end(), {"--features-dir", (plan.folder / "features").string()});
  for (const config::Override& value : results::make_overrides(plan, point)) {
    words.insert(words.end(), {"--set", config::to_setting(value)});
  }
  return words;
}

std::vector<results::PointState> run_sweep(const results::SweepPlan& plan, const Path& program,
                                           SweepPrinter& printer) {
  const checkpoint::RunLock lock = lock_sweep(plan.folder);
  std::vector<results::PointState> states = results::make_states(plan);
  SweepRunner runner(plan, program, printer);
  SignalGuard signals;
  for (std::size_t i = 0; i < states.size(); ++i) {
    if (signals.take() || !runner.run(i, states[i])) break;
  }
  return states;
}

Path find_program() { return std::filesystem::read_symlink("/proc/self/exe"); }

std::vector<results::PointState> train_or_collect(const PointsArguments& arguments,
                                                  const results::SweepPlan& plan,
                                                  results::CheckpointChoice checkpoint,
                                                  const Context& context) {
  if (arguments.collect) return results::collect(plan);
  SweepPrinter printer({arguments.json, arguments.quiet, context.out_is_terminal, checkpoint},
                       plan.points.size(), context.out);
  return run_sweep(plan, find_program(), printer);
}

}  // namespace trainer::commands
