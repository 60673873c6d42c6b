#include "commands/evaluate/follow.h"

#include <charconv>
#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "base/error.h"
#include "base/formats/json.h"
#include "base/formats/json_number.h"
#include "base/formats/table.h"
#include "base/numbers/seconds.h"
#include "base/text.h"
#include "checkpoint/lock.h"
#include "checkpoint/run_links.h"
#include "checkpoint/store.h"
#include "commands/open_model/run_archive.h"
#include "config/keys.h"
#include "data/image_split.h"
#include "data/open.h"
#include "engine/evaluate.h"
#include "engine/replicas.h"
#include "hooks/data_report.h"
#include "hooks/interval.h"
#include "model/build_model.h"
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

// The split that the training itself would evaluate.
Split split_to_follow(const config::Data& data) {
  bool validation = config::divides_training_samples(data) || data.validation.given();
  if (!validation && config::is_image_format(data.format)) {
    validation = data::image_split(data, Split::kValidation).given();
  }
  return validation ? Split::kValidation : Split::kTest;
}

// The step of the last row of a follower before this one; -1 when there is none. A row that a kill
// cut off does not count.
std::int64_t last_step(const Path& folder) {
  std::int64_t step = -1;
  std::ifstream file(folder / "metrics.jsonl");
  for (std::string line; std::getline(file, line);) {
    const auto row = nlohmann::json::parse(line, nullptr, false);
    if (row.is_object() && row.contains("step")) step = whole_number(row["step"]).value_or(step);
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
class Evaluator {
 public:
  Evaluator(const OpenedModel& trained, Split split)
      : config_(trained.config),
        split_(split),
        data_(open_split(trained, split)),
        engine_(model::build_model(config_.model, config_.data, train::sample_spec(data_),
                                   config_.seed),
                config_, engine::open_backends(config_), engine::Engine::Use::kEvaluate) {
    const std::string line = hooks::left_out(data_.files(split_).get(), split_);
    if (!line.empty()) trained.warn(line);
  }

  bool fits(const OpenedModel& trained) const {
    return config::to_yaml(trained.config) == config::to_yaml(config_);
  }
  // Nothing when a signal came.
  std::optional<engine::Metrics> run(const OpenedModel& trained) {
    engine_.load(trained.file, trained.path);
    engine::EvaluateOptions options = engine::evaluate_options(config_);
    options.cancelled = [] { return train::SignalWatch::received() != nullptr; };
    return engine::evaluate(engine_, *data_.dataset(split_), options);
  }

 private:
  config::Config config_;
  Split split_;
  data::Datasets data_;
  engine::Replicas engine_;
};

class Follower {
 public:
  explicit Follower(FollowOptions options) : options_(std::move(options)) {}

  Followed run() {
    if (!wait_for_config()) return interrupted();
    const Path recorded = train::config_file(options_.run);
    const config::Config config =
        config::parse_recorded_config(read_text_file(recorded), recorded.string(),
                                      options_.overrides, options_.environment)
            .config;
    timing_ = config.evaluate;
    split_ = options_.split ? *options_.split : split_to_follow(config.data);
    folder_ = train::evaluator_folder(options_.run, split_);
    checkpoint::check_no_links(options_.run);
    lock_.emplace(folder_);
    options_.warn(lock_->warning());
    result_.step = last_step(folder_);
    options_.hooks.push_back(hooks::make_metrics_files_hook(
        config.run.summary_every, std::chrono::system_clock::now, options_.warn));
    if (config.run.tensorboard) {
      options_.hooks.push_back(hooks::make_tensorboard_hook(
          {.summary_every = config.run.summary_every, .warn = options_.warn}));
    }
    while (train::SignalWatch::received() == nullptr) {
      if (replaced()) start_anew();
      const bool newest_known = look();
      const bool training = checkpoint::is_in_use(options_.run);
      if (training) seen_training_ = true;
      const bool stopped = length_.stopped && result_.step >= 0 && !training;
      const bool done = newest_known && !length_.stopped && result_.step >= length_.total_steps &&
                        (!training || written_by_trainer());
      if (!done && !stopped) {
        check_timeout();
      } else if (training || nobody_comes()) {
        return ended(done ? Reason::kDone : Reason::kEarlyStop);
      }
      std::this_thread::sleep_for(kPoll);
    }
    return interrupted();
  }

 private:
  Followed ended(Reason reason) {
    result_.reason = reason;
    return result_;
  }
  Followed interrupted() { return ended(Reason::kInterrupted); }

  // The default timeout applies until the config can be read; its own flags come first.
  bool wait_for_config() {
    for (const config::Override& each : options_.overrides) {
      if (each.path != keys::kEvaluateTimeout) continue;
      // A value that is not a number is reported with the config.
      const char* const end = each.value.data() + each.value.size();
      double seconds = 0;
      const auto read = std::from_chars(each.value.data(), end, seconds);
      if (read.ec == std::errc{} && read.ptr == end) timing_.timeout_secs = seconds;
    }
    bool told = false;
    while (!std::filesystem::exists(train::config_file(options_.run))) {
      if (!told)
        options_.warn(
            Notice::note(concat(options_.run.string(), ": no run there yet; waiting for it")));
      told = seen_training_ = true;
      if (train::SignalWatch::received() != nullptr) return false;
      check_timeout();
      std::this_thread::sleep_for(kPoll);
    }
    return true;
  }

  // A run that replaces this one has removed the follower's folder, and its lock with it.
  bool replaced() const { return lock_ && !std::filesystem::exists(folder_ / "lock"); }

  // Nothing of the run before counts. The folder is made again with the first evaluation: the new
  // run may still be removing it.
  void start_anew() {
    options_.warn(Notice::note(
        concat(options_.run.string(), ": another run has taken the place of this one")));
    lock_.reset();
    evaluator_.reset();
    started_ = false;
    seen_training_ = true;
    result_.step = -1;
    length_ = {-1, 1, false};
    seen_ = {{}, -1};
    listed_.clear();
    pending_ = -1;
    newest_at_ = Clock::now();
  }

  // Returns true if the process that trains now has written the newest checkpoint, and has not
  // resumed from it.
  bool written_by_trainer() const {
    std::error_code gone;
    const auto started = std::filesystem::last_write_time(options_.run / "lock", gone);
    return !gone && written_ >= started;
  }

  // Returns true if a process that has yet to start training here would have done so by now.
  bool nobody_comes() {
    if (seen_training_ || seconds_since(start_) >= timing_.start_delay_secs) return true;
    if (!told_waiting_) {
      options_.warn(Notice::note(
          concat(options_.run.string(), ": the run has ended and is evaluated; waiting ",
                 timing_.start_delay_secs,
                 " seconds for one that resumes it (evaluate.start_delay_secs, "
                 "--start-delay)")));
    }
    told_waiting_ = true;
    return false;
  }

  void check_timeout() const {
    const bool held_back = pending_ != seen_.step;  // by the throttle
    if (held_back || seconds_since(newest_at_) < timing_.timeout_secs) return;
    const bool training = checkpoint::is_in_use(options_.run);
    throw DataError(
        options_.run.string(),
        concat("no new checkpoint for ", timing_.timeout_secs, " seconds; the last one evaluated ",
               result_.step < 0 ? "is none" : concat("is of step ", result_.step), ". ",
               training ? "A process still trains there: raise evaluate.timeout_secs (--timeout)"
                        : "No process trains there: resume the run, and follow it again"));
  }

  // Evaluates the newest checkpoint when it is new and the time has come. Returns whether the last
  // one that was evaluated is still the newest.
  bool look() {
    const std::vector<checkpoint::Saved> saved =
        checkpoint::list_checkpoints(train::checkpoint_folder(options_.run));
    if (saved.empty()) return false;
    const checkpoint::Saved& newest = saved.back();
    std::error_code gone;
    const auto written = std::filesystem::last_write_time(newest.path, gone);
    if (gone) return false;
    if (newest.step == seen_.step && written == written_) return newest.step == result_.step;
    if (seen_.step >= 0) seen_training_ = true;
    for (const checkpoint::Saved& each : saved) listed_.insert(each.step);
    if (newest.step != pending_) newest_at_ = Clock::now();
    pending_ = newest.step;
    if (checkpoint::is_in_use(options_.run) && !due()) return false;
    if (!evaluate(newest, written)) return false;
    seen_ = newest;
    written_ = written;
    return newest.step == result_.step;
  }

  bool due() const {
    if (seconds_since(start_) < timing_.start_delay_secs) return false;
    return !evaluated_at_ || seconds_since(*evaluated_at_) >= timing_.throttle_secs;
  }

  // False when the checkpoint was removed before it was read: there is a newer one then.
  bool evaluate(const checkpoint::Saved& saved, std::filesystem::file_time_type written) {
    std::optional<OpenedModel> trained;
    try {
      trained = open_trained(saved.path.string(), CheckpointChoice::kDefault, options_.overrides,
                             options_.environment, options_.warn);
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
    if (!metrics || replaced()) return false;
    if (!lock_) lock_.emplace(folder_);
    if (!started_) start_hooks(*trained);
    const double epoch =
        static_cast<double>(saved.step) / static_cast<double>(length_.steps_per_epoch);
    const hooks::Evaluation evaluation{split_, saved.step, epoch, seconds_since(*evaluated_at_),
                                       *metrics};
    for (const auto& hook : options_.hooks) hook->on_evaluation(evaluation);
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
    if (!skipped.empty() && result_.skipped == 0) {
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
    if (told_slow_ || !took_ || !checkpoint::is_in_use(options_.run)) return;
    const double apart = std::chrono::duration<double>(written - written_).count() /
                         static_cast<double>(skipped + 1);
    if (*took_ <= apart) return;
    told_slow_ = true;
    options_.warn(concat(options_.run.string(), ": an evaluation takes ", fixed(*took_, 1),
                         " seconds, and a checkpoint comes every ", fixed(apart, 1),
                         ", so that some are passed over: raise run.checkpoint_every, or evaluate "
                         "on a faster machine"));
  }

  void start_hooks(const OpenedModel& trained) {
    hooks::RunInfo info;
    info.name = trained.config.name;
    info.dir = folder_;
    info.classes = trained.classes;
    info.total_steps = length_.total_steps;
    info.steps_per_epoch = length_.steps_per_epoch;
    info.first_step = std::max<std::int64_t>(result_.step, 0);
    info.global_batch = trained.config.train.batch_size * trained.config.optimizer.accumulate;
    for (const auto& hook : options_.hooks) hook->on_start(info);
    started_ = true;
  }

  FollowOptions options_;
  train::SignalWatch signals_;
  config::Evaluate timing_;
  Split split_ = Split::kValidation;
  Path folder_;                              // of what it writes
  std::optional<checkpoint::RunLock> lock_;  // of that folder
  bool seen_training_ = false;               // a process has trained since the start
  bool told_waiting_ = false;
  Followed result_;
  train::RunLength length_{-1, 1, false};
  checkpoint::Saved seen_{{}, -1};  // read last, as it was written then
  std::filesystem::file_time_type written_;
  std::int64_t pending_ = -1;      // the newest step that was listed
  std::set<std::int64_t> listed_;  // all steps that were, since the last evaluation
  std::optional<double> took_;     // seconds of the last evaluation
  bool told_slow_ = false;
  std::optional<Evaluator> evaluator_;
  bool started_ = false;
  Clock::time_point start_ = Clock::now(), newest_at_ = start_;
  std::optional<Clock::time_point> evaluated_at_;
};

}  // namespace

Followed follow(FollowOptions options) { return Follower(std::move(options)).run(); }

void print_followed(const Followed& followed, const std::string& run, bool json,
                    std::ostream& out) {
  if (json) {
    nlohmann::ordered_json line{
        {"event", "followed"},         {"run", run},      {"evaluations", followed.evaluations},
        {"skipped", followed.skipped}, {"step", nullptr}, {"reason", to_string(followed.reason)}};
    if (followed.step >= 0) line["step"] = followed.step;
    write_event(out, line);
    return;
  }
  out << printable(run) << ": " << followed.evaluations << " checkpoints evaluated, ";
  if (followed.skipped > 0) out << followed.skipped << " passed over, ";
  out << (followed.step < 0 ? "none before" : concat("the last of step ", followed.step)) << "; "
      << (followed.reason == Reason::kInterrupted
              ? "interrupted"
              : concat("the run has ended: ", to_string(followed.reason)))
      << std::endl;
}

}  // namespace trainer::commands
