#include "commands/evaluate/follow.h"

#include <chrono>
#include <fstream>
#include <set>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/files/files.h"
#include "base/files/output_buffer.h"
#include "base/formats/table.h"
#include "base/numbers/seconds.h"
#include "base/text.h"
#include "checkpoint/lock.h"
#include "checkpoint/run_links.h"
#include "checkpoint/store.h"
#include "config/keys.h"
#include "data/open.h"
#include "engine/engine.h"
#include "engine/evaluate.h"
#include "hooks/data_report.h"
#include "hooks/hooks.h"
#include "hooks/interval.h"
#include "inference/open_model/run_archive.h"
#include "model/build_model.h"
#include "results/metrics.h"
#include "results/read_json.h"
#include "results/write_json.h"
#include "train/open.h"
#include "train/run_dir.h"
#include "train/signals.h"
#include "train/state.h"

namespace trainer::commands {
namespace {

namespace keys = config::keys;
using Clock = std::chrono::steady_clock;
using Reason = hooks::FinishReason;
constexpr std::chrono::milliseconds kPoll{100};

// What is followed, and where the results go.
struct FollowOptions : inference::OpenOptions {
  Path run;                    // the folder may not exist yet
  std::optional<Split> split;  // default: validation, or test where there is none
  std::vector<std::unique_ptr<hooks::Hook>> hooks = {};  // called for every evaluation
};

// The split that the training itself would evaluate.
Split split_to_follow(const config::Data& data) {
  return data::has_validation(data) ? Split::kValidation : Split::kTest;
}

// The step of the last row of a follower before this one; -1 when there is none. A row that a kill
// cut off does not count.
std::int64_t last_step(const Path& folder) {
  std::int64_t step = -1;
  std::ifstream file(folder / "metrics.jsonl");
  for (std::string line; std::getline(file, line);) {
    if (const auto row = results::find_in_line<results::RowKey>(line)) step = row->step;
  }
  return step;
}

// "2, 4, 6 and 12 more".
std::string list_first(const std::set<std::int64_t>& steps) {
  constexpr std::size_t kMaxListed = 5;
  std::vector<std::string> words;
  for (const std::int64_t step : steps) words.push_back(std::to_string(step));
  return join_first(std::move(words), kMaxListed);
}

// The model of a checkpoint and the split it is measured on; the same for all of a run, unless it
// is resumed with another config.
class CheckpointEvaluator {
 public:
  CheckpointEvaluator(const inference::OpenedModel& trained, Split split)
      : config_(trained.config),
        split_(split),
        data_(inference::open_split(trained, split)),
        engine_(model::build_model(config_, train::sample_spec(data_)), config_,
                engine::open_backends(config_, trained.platform), engine::Use::kEvaluate) {
    const std::string line = hooks::left_out(data_.files(split_).get(), split_);
    if (!line.empty()) trained.warn(line);
  }

  bool fits(const inference::OpenedModel& trained) const {
    return config::to_yaml(trained.config) == config::to_yaml(config_);
  }
  // Nothing when a signal came.
  std::optional<engine::Metrics> run(const inference::OpenedModel& trained) {
    engine_.load(trained.file, trained.path);
    engine::EvaluateOptions options = engine::evaluate_options(config_);
    options.cancelled = [] { return train::SignalWatch::received() != nullptr; };
    return engine::evaluate(engine_, *data_.dataset(split_), options);
  }

 private:
  config::Config config_;
  Split split_;
  data::Datasets data_;
  engine::Engine engine_;
};

// The first call of is_first() returns true, later ones false.
class Once {
 public:
  bool is_first() { return !std::exchange(called_, true); }

 private:
  bool called_ = false;
};

[[noreturn]] void throw_timeout(const Path& run, double seconds, std::int64_t last_evaluated) {
  const bool training = checkpoint::is_in_use(run);
  throw DataError(run.string(), "no new checkpoint for ", seconds,
                  " seconds; the last one evaluated ",
                  last_evaluated < 0 ? "is none" : concat("is of step ", last_evaluated), ". ",
                  training ? "A process still trains there: raise evaluate.timeout_secs (--timeout)"
                           : "No process trains there: resume the run, and follow it again");
}

// Returns the timeout until the config can be read: the option, or the default.
double find_first_timeout(const std::vector<config::Override>& overrides) {
  double timeout = config::Evaluate{}.timeout_secs;
  for (const config::Override& each : overrides) {
    if (each.path != keys::kEvaluateTimeout) continue;
    // A value that is not a number is reported with the config.
    timeout = parse_real(each.value).value_or(timeout);
  }
  return timeout;
}

bool has_config(const Path& run) { return std::filesystem::exists(train::config_file(run)); }

// Returns false on a signal. A process that replaces a run removes the config first and writes its
// own after it has removed the other files.
bool wait_for_config(const FollowOptions& options, Clock::time_point start) {
  const double timeout = find_first_timeout(options.overrides);
  while (!has_config(options.run)) {
    if (train::SignalWatch::received() != nullptr) return false;
    if (seconds_since(start) >= timeout) throw_timeout(options.run, timeout, -1);
    std::this_thread::sleep_for(kPoll);
  }
  return true;
}

config::Config read_recorded_config(const FollowOptions& options) {
  const Path recorded = train::config_file(options.run);
  return config::parse_recorded_config(read_text_file(recorded), recorded.string(),
                                       options.overrides, options.environment)
      .config;
}

checkpoint::RunLock lock_folder(const Path& run, const Path& folder) {
  checkpoint::check_no_links(run);
  return checkpoint::RunLock(folder);
}

struct RunStart {
  Clock::time_point time;  // the delay of the first evaluation and the timeout begin
  bool is_new = false;     // the run began after the follower
};

// Follows one run: a run that replaces it has a follower of its own. `options` and `result` outlive
// the follower. The constructor needs the config of the run.
class RunFollower {
 public:
  RunFollower(const FollowOptions& options, RunStart start, Followed& result)
      : RunFollower(options, start, read_recorded_config(options), result) {}

  // Returns the reason for the end; nothing if another run took the folder.
  std::optional<Reason> run() {
    while (train::SignalWatch::received() == nullptr) {
      if (is_replaced()) return std::nullopt;
      const bool newest_known = evaluate_newest();
      const bool training = checkpoint::is_in_use(options_.run);
      if (training) has_trained_ = true;
      const bool stopped = length_.stopped && result_.step >= 0 && !training;
      const bool done = newest_known && !length_.stopped && result_.step >= length_.total_steps &&
                        (!training || written_by_trainer());
      if (!done && !stopped) {
        check_timeout();
      } else if (training || nobody_comes()) {
        return done ? Reason::kDone : Reason::kEarlyStop;
      }
      std::this_thread::sleep_for(kPoll);
    }
    return Reason::kInterrupted;
  }

 private:
  RunFollower(const FollowOptions& options, RunStart start, const config::Config& config,
              Followed& result)
      : options_(options),
        start_(start.time),
        timing_(config.evaluate),
        split_(options.split ? *options.split : split_to_follow(config.data)),
        folder_(train::evaluator_folder(options.run, split_)),
        lock_(lock_folder(options.run, folder_)),
        has_trained_(start.is_new),
        newest_at_(start.time),
        result_(result) {
    options_.warn(lock_.warning());
    result_.step = last_step(folder_);
    files_.push_back(hooks::make_metrics_files_hook(config.run.summary_every,
                                                    std::chrono::system_clock::now, options_.warn));
    if (config.run.tensorboard) {
      files_.push_back(hooks::make_tensorboard_hook(
          {.summary_every = config.run.summary_every, .warn = options_.warn}));
    }
  }

  // A run that replaces this one has removed the follower's folder, and its lock with it.
  bool is_replaced() const { return !std::filesystem::exists(folder_ / "lock"); }

  // Returns true if the process that trains now has written the newest checkpoint, and has not
  // resumed from it.
  bool written_by_trainer() const {
    std::error_code gone;
    const auto started = std::filesystem::last_write_time(options_.run / "lock", gone);
    return !gone && written_ >= started;
  }

  // Returns true if a process that has yet to start training here would have done so by now.
  bool nobody_comes() {
    if (has_trained_ || seconds_since(start_) >= timing_.start_delay_secs) return true;
    if (waiting_note_.is_first()) {
      options_.warn(Notice::note(
          concat(options_.run.string(), ": the run has ended and is evaluated; waiting ",
                 timing_.start_delay_secs,
                 " seconds for one that resumes it (evaluate.start_delay_secs, --start-delay)")));
    }
    return false;
  }

  void check_timeout() const {
    const bool held_back = pending_step_ != read_.step;  // by the throttle
    if (held_back || seconds_since(newest_at_) < timing_.timeout_secs) return;
    throw_timeout(options_.run, timing_.timeout_secs, result_.step);
  }

  // Evaluates the newest checkpoint if it is new and the time has come. Returns whether it is
  // evaluated.
  bool evaluate_newest() {
    const std::vector<checkpoint::Saved> saved =
        checkpoint::list_checkpoints(train::checkpoint_folder(options_.run));
    if (saved.empty()) return false;
    const checkpoint::Saved& newest = saved.back();
    std::error_code gone;
    const auto written = std::filesystem::last_write_time(newest.path, gone);
    if (gone) return false;
    if (newest.step == read_.step && written == written_) return newest.step == result_.step;
    if (read_.step >= 0) has_trained_ = true;
    for (const checkpoint::Saved& each : saved) listed_.insert(each.step);
    if (newest.step != pending_step_) newest_at_ = Clock::now();
    pending_step_ = newest.step;
    if (checkpoint::is_in_use(options_.run) && !is_due()) return false;
    if (!evaluate(newest, written)) return false;
    read_ = newest;
    written_ = written;
    return newest.step == result_.step;
  }

  bool is_due() const {
    if (seconds_since(start_) < timing_.start_delay_secs) return false;
    return !evaluated_at_ || seconds_since(*evaluated_at_) >= timing_.throttle_secs;
  }

  // False when the checkpoint was removed before it was read: there is a newer one then.
  bool evaluate(const checkpoint::Saved& saved, std::filesystem::file_time_type written) {
    std::optional<inference::OpenedModel> trained;
    try {
      trained = inference::open_trained(saved.path.string(), results::CheckpointChoice::kDefault,
                                        options_);
    } catch (const DataError& error) {
      if (!std::filesystem::exists(saved.path)) return false;
      options_.warn(error.what());
      return true;
    }
    length_ = train::read_length(trained->file.metadata, trained->path);
    if (saved.step <= result_.step) return true;  // saved anew, or known from a follower before
    const std::set<std::int64_t> skipped = skipped_before(saved.step, trained->config);
    warn_of_slowness(skipped.size(), written);
    evaluated_at_ = Clock::now();
    if (!evaluator_ || !evaluator_->fits(*trained)) {
      evaluator_.reset();
      evaluator_.emplace(*trained, split_);
    }
    const std::optional<engine::Metrics> metrics = evaluator_->run(*trained);
    if (!metrics || is_replaced()) return false;
    if (hooks_start_.is_first()) start_hooks(*trained);
    const double epoch =
        static_cast<double>(saved.step) / static_cast<double>(length_.steps_per_epoch);
    const hooks::Evaluation evaluation{split_, saved.step, epoch, seconds_since(*evaluated_at_),
                                       *metrics};
    for_each_hook([&](hooks::Hook& hook) { hook.on_evaluation(evaluation); });
    result_.step = saved.step;
    ++result_.evaluations;
    count_skipped(skipped);
    took_ = seconds_since(*evaluated_at_);
    newest_at_ = Clock::now();  // the time that an evaluation takes is not waiting
    return true;
  }

  // Returns the steps of the checkpoints between the last evaluated one and `step`: those that were
  // seen, and those that the config makes due and that were removed since. A run begins with a
  // checkpoint of step 0.
  std::set<std::int64_t> skipped_before(std::int64_t step, const config::Config& config) const {
    std::set<std::int64_t> skipped(listed_.upper_bound(result_.step), listed_.lower_bound(step));
    if (result_.step < 0 && step > 0) skipped.insert(0);
    const config::Duration& interval = config.run.checkpoint_every;
    if (interval.unit == config::Duration::Unit::kSeconds) return skipped;
    hooks::Interval checkpoints(interval, length_.steps_per_epoch);
    for (std::int64_t s = std::max<std::int64_t>(result_.step, 0) + 1; s < step; ++s) {
      if (checkpoints.due(s, 0)) skipped.insert(s);
    }
    return skipped;
  }

  void count_skipped(const std::set<std::int64_t>& skipped) {
    if (!skipped.empty() && skipped_warning_.is_first()) {
      options_.warn(
          concat(options_.run.string(), ": the checkpoints of steps ", list_first(skipped),
                 " are not evaluated: only the newest is, when evaluate.start_delay_secs (",
                 timing_.start_delay_secs, "), evaluate.throttle_secs (", timing_.throttle_secs,
                 ") and the evaluation before allow it. Others that are passed over are "
                 "counted at the end"));
    }
    result_.skipped += std::ssize(skipped);
    listed_.clear();
  }

  // When checkpoints come faster than they can be evaluated. `written`: the newest, with `skipped`
  // ones since the last that was evaluated.
  void warn_of_slowness(std::size_t skipped, std::filesystem::file_time_type written) {
    if (!took_ || !checkpoint::is_in_use(options_.run)) return;
    const double apart = std::chrono::duration<double>(written - written_).count() /
                         static_cast<double>(skipped + 1);
    if (*took_ <= apart || !slowness_warning_.is_first()) return;
    options_.warn(concat(options_.run.string(), ": an evaluation takes ", fixed(*took_, 1),
                         " seconds, and a checkpoint comes every ", fixed(apart, 1),
                         ", so that some are passed over: raise run.checkpoint_every, or evaluate "
                         "on a faster machine"));
  }

  void start_hooks(const inference::OpenedModel& trained) {
    hooks::RunInfo info;
    info.name = trained.config.name;
    info.dir = folder_;
    info.classes = trained.classes;
    info.total_steps = length_.total_steps;
    info.steps_per_epoch = length_.steps_per_epoch;
    info.first_step = std::max<std::int64_t>(result_.step, 0);
    info.global_batch = trained.config.train.batch_size * trained.config.optimizer.accumulate;
    for_each_hook([&](hooks::Hook& hook) { hook.on_start(info); });
  }

  template <class Call>
  void for_each_hook(const Call& call) {
    for (const auto& hook : options_.hooks) call(*hook);
    for (const auto& hook : files_) call(*hook);
  }

  const FollowOptions& options_;
  const Clock::time_point start_;
  const config::Evaluate timing_;
  const Split split_;
  const Path folder_;                                // holds what the follower writes
  const checkpoint::RunLock lock_;                   // locks folder_
  std::vector<std::unique_ptr<hooks::Hook>> files_;  // write the files of folder_
  bool has_trained_;                                 // a process has trained since the start
  train::RunLength length_{-1, 1, false};
  checkpoint::Saved read_{{}, -1};           // the last checkpoint that was read
  std::filesystem::file_time_type written_;  // when read_ was written
  std::int64_t pending_step_ = -1;           // the newest step that was listed
  std::set<std::int64_t> listed_;            // all steps listed since the last evaluation
  Clock::time_point newest_at_;              // when there was last something new
  std::optional<CheckpointEvaluator> evaluator_;
  std::optional<Clock::time_point> evaluated_at_;  // the start of the last evaluation
  std::optional<double> took_;                     // seconds of the last evaluation
  Once hooks_start_, waiting_note_, skipped_warning_, slowness_warning_;
  Followed& result_;
};

Followed follow_run(const FollowOptions& options) {
  const train::SignalWatch signals;
  Followed result;
  RunStart start{Clock::now(), !has_config(options.run)};
  if (start.is_new) {
    options.warn(Notice::note(concat(options.run.string(), ": no run there yet; waiting for it")));
  }
  while (wait_for_config(options, start.time)) {
    if (const auto reason = RunFollower(options, start, result).run()) {
      result.reason = *reason;
      return result;
    }
    options.warn(Notice::note(
        concat(options.run.string(), ": another run has taken the place of this one")));
    start = {Clock::now(), true};
    result.step = -1;
  }
  result.reason = Reason::kInterrupted;
  return result;
}

// Prints the last line: a sentence, or with `json` {"event":"followed",...}.
void print_followed(const Followed& followed, bool json, std::ostream& out) {
  if (json) return results::print_json(followed, out);
  out << printable(followed.run) << ": " << followed.evaluations << " checkpoints evaluated, ";
  if (followed.skipped > 0) out << followed.skipped << " passed over, ";
  out << (followed.step < 0 ? "none before" : concat("the last of step ", followed.step)) << "; "
      << (followed.reason == Reason::kInterrupted
              ? "interrupted"
              : concat("the run has ended: ", to_string(followed.reason)))
      << std::endl;
}

}  // namespace

void fields(results::FieldVisitor& v, Followed& followed) {
  const std::int64_t step = followed.step;
  v.event("followed");
  v("run", followed.run, "The run.");
  v("evaluations", followed.evaluations, "Checkpoints that were evaluated.");
  v("skipped", followed.skipped, "Checkpoints that were passed over.");
  v.derived("step", step < 0 ? std::nullopt : std::optional(step), results::kSteps,
            "The last evaluated step; null for none.");
  v("reason", followed.reason, "Why it ended.");
}

int follow(const EvaluateArguments& arguments, const std::string& run, const Context& context) {
  const train::StartupSignals signals;
  const FinishOutput output;  // while a signal still ends with kExitInterrupted
  if (inference::is_config(run)) {
    throw ConfigError(
        {}, "--follow waits for the checkpoints of a run; name its folder in place of ", run);
  }
  FollowOptions options{
      {arguments.overrides, context.environment, context.warn}, run, parse_split(arguments.split)};
  const config::Duration never{1e9, config::Duration::Unit::kSeconds};  // there are no steps to log
  options.hooks.push_back(
      arguments.json ? hooks::make_json_hook(context.out, never, std::chrono::system_clock::now)
                     : hooks::make_progress_hook(context.out, false, arguments.quiet, never,
                                                 {{}, std::chrono::system_clock::now, {}}));
  Followed followed = follow_run(options);
  followed.run = run;
  print_followed(followed, arguments.json, context.out);
  return followed.reason == Reason::kInterrupted ? kExitInterrupted : kExitOk;
}

}  // namespace trainer::commands
