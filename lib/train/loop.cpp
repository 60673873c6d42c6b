#include "train/loop.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <optional>
#include <utility>

#include "base/error.h"
#include "engine/device_sampler.h"
#include "engine/evaluate.h"
#include "train/session/checkpointer.h"
#include "train/session/evaluator.h"
#include "train/session/not_finite.h"
#include "train/session/schedule.h"
#include "train/session/session.h"
#include "train/session/stage_control.h"
#include "train/session/start.h"
#include "train/signals.h"

namespace trainer::train {
namespace {

using hooks::FinishReason;

// Short against the time in which a GPU's load changes, long against the time that reading it
// takes.
constexpr std::chrono::milliseconds kDeviceInterval(500);

class Loop {
 public:
  explicit Loop(Job& job);
  ~Loop() { strategy_.close_feed(); }  // reads what the members hold
  hooks::Finish run();

 private:
  void start();
  void start_sampler();
  void warn_of_devices();
  FinishReason train();
  hooks::Finish finish(FinishReason reason);
  void finish_devices(hooks::Finish& finish);

  bool is_over() const { return state_.step >= job_.plan.total_steps || state_.stopped; }
  void enter_stage();
  void launch_steps();
  bool may_launch() const;
  bool read_step();
  void handle_not_finite(const NotFinite& found) const;
  DueActions agree(const StepOutcome& outcome, hooks::Progress& progress);
  void set_own_times(double step_seconds, double wait_seconds,
                     const std::vector<backend::PhaseTimes>& devices);
  void wait_for_others(double step_seconds);
  std::optional<FinishReason> carry_out(DueActions due);

  Job& job_;
  Strategy& strategy_;
  SignalWatch signals_;
  Session session_;
  RunState& state_;
  StageControl stages_;
  Checkpointer checkpointer_;
  Evaluator evaluator_;
  Schedule schedule_;
  std::optional<engine::DeviceSampler> sampler_;  // the chief's
  NotFinitePolicy not_finite_policy_ = NotFinitePolicy::kStop;
  bool has_classes_;
  bool is_feed_open_ = false;
  int steps_in_flight_ = 0;  // launched and not read
  DueActions due_;           // once no step is in flight
  double step_start_ = 0;    // of the clock
  double waited_ = 0;        // seconds that steps have waited for data since the feed was opened
  double step_seconds_ = 0;  // of all steps
  std::vector<engine::RankTimes> rank_times_;  // of the newest step
  engine::StepTimes times_;
  std::int64_t samples_ = 0;
  std::int64_t skipped_updates_ = 0;
};

Loop::Loop(Job& job)
    : job_(job),
      strategy_(job.strategy),
      session_(job),
      state_(session_.state),
      stages_(session_),
      checkpointer_(session_),
      evaluator_(session_, checkpointer_, stages_),
      schedule_(job.config.run, job.plan, stages_.stages()),
      has_classes_(engine::has_classes(*job.data.train,
                                       static_cast<graph::LossKind>(job.config.model.loss))) {
  strategy_.attach(session_);
}

hooks::Finish Loop::run() {
  try {
    start();
    return finish(train());
  } catch (const PeerError& error) {
    const std::string rescued = strategy_.rescue(checkpointer_);
    if (rescued.empty()) throw;
    throw PeerError(concat(error.what(), ". ", rescued));
  }
}

// From the last checkpoint when asked to, from the initialisers otherwise.
void Loop::start() {
  std::string weights;
  job_.engine.initialise(job_.config.seed);
  if (strategy_.is_chief()) {
    if (job_.start == Start::kResume) resume(session_, checkpointer_, stages_);
    // Only now: a checkpoint that the config does not fit keeps the config that it was made with.
    write_config(job_.run, job_.config);
    if (state_.step == 0) weights = import_weights(session_);
  }
  strategy_.start(stages_);
  session_.saved_step = state_.step;
  stages_.begin();
  warn_of_small_batches(session_);
  start_sampler();
  hooks::RunInfo info = run_info(session_, weights);
  rank_times_.resize(info.ranks.size());
  if (job_.engine.gaps()) info.gaps = [&engine = job_.engine] { return *engine.gaps(); };
  if (sampler_) info.device_totals = [&sampler = *sampler_] { return sampler.totals(); };
  for (const auto& hook : job_.hooks) {
    const auto saved = state_.hooks.find(hook->name());
    if (saved != state_.hooks.end()) hook->restore(saved->second);
    hook->on_start(info);
  }
  if (state_.step == 0) checkpointer_.save();
}

// Devices that cannot be read are no reason not to train on them.
void Loop::start_sampler() {
  if (!strategy_.is_chief()) return;
  try {
    auto devices = job_.engine.make_telemetry();
    if (!devices.empty()) sampler_.emplace(std::move(devices), kDeviceInterval);
  } catch (const DeviceError& error) {
    job_.warn(concat("the run has no metrics of its GPUs: ", error.what()));
  }
}

void Loop::warn_of_devices() {
  if (!sampler_) return;
  for (const std::string& line : sampler_->take_warnings()) job_.warn(line);
}

FinishReason Loop::train() {
  const bool was_cut_short = state_.evaluation_due && state_.step < job_.plan.total_steps;
  if (was_cut_short) {
    evaluator_.evaluate_between();
    checkpointer_.save();
    if (state_.evaluation_due) return FinishReason::kInterrupted;
  }
  if (state_.stopped) return FinishReason::kEarlyStop;
  if (is_over()) return FinishReason::kAlreadyDone;
  while (!is_over()) {
    step_start_ = job_.clock();
    enter_stage();
    launch_steps();
    if (steps_in_flight_ == 0) stop_for_unreadable_data(session_, checkpointer_);
    if (!read_step()) break;  // other processes have made the last step
    if (steps_in_flight_ > 0) continue;
    if (const auto reason = carry_out(std::exchange(due_, {}))) return *reason;
  }
  return FinishReason::kDone;
}

// Freezes what the next step's stage has frozen, and opens its data.
void Loop::enter_stage() {
  if (steps_in_flight_ > 0 || (is_feed_open_ && !stages_.is_next_due())) return;
  if (is_feed_open_) strategy_.close_feed();  // reads features, which end with the stage
  if (stages_.is_next_due()) stages_.begin_next();
  strategy_.open_feed(stages_.features());
  is_feed_open_ = true;
  waited_ = 0;
}

// A step is launched before the numbers of those before it have arrived.
void Loop::launch_steps() {
  while (may_launch() && strategy_.launch(state_.step + steps_in_flight_)) ++steps_in_flight_;
}

// Whatever is due after a step is done before the next is launched.
bool Loop::may_launch() const {
  const std::int64_t launched = state_.step + steps_in_flight_;
  if (session_.failure.any_rank() || launched >= job_.plan.total_steps) return false;
  if (steps_in_flight_ == 0) return true;
  return steps_in_flight_ < strategy_.max_in_flight() && !due_.any() && !strategy_.may_stop_now() &&
         !schedule_.is_boundary(launched);
}

// Reads the numbers of the oldest step in flight and tells the hooks.
bool Loop::read_step() {
  const std::optional<StepOutcome> outcome = strategy_.result();
  --steps_in_flight_;
  if (!outcome) {
    if (session_.failure.any_rank()) stop_for_unreadable_data(session_, checkpointer_);
    return false;
  }
  if (outcome->not_finite) handle_not_finite(*outcome->not_finite);
  hooks::Progress progress = outcome->progress;
  state_.step = progress.step;
  progress.wait_seconds = strategy_.seconds_waited() - waited_;
  waited_ += progress.wait_seconds;
  progress.elapsed = session_.elapsed();
  set_own_times(job_.clock() - step_start_, progress.wait_seconds, outcome->times);
  due_.merge(agree(*outcome, progress));
  progress.step_seconds = job_.clock() - step_start_;
  wait_for_others(progress.step_seconds);
  progress.ranks = rank_times_;
  times_.add(rank_times_);
  step_seconds_ += progress.step_seconds;
  samples_ += progress.samples;
  skipped_updates_ += progress.skipped ? 1 : 0;
  warn_of_devices();
  const hooks::Request request =
      session_.notify_hooks([&](hooks::Hook& hook) { return hook.on_step(progress); });
  due_.request = std::max(due_.request, strategy_.submit(request));
  return true;
}

// The times of this process's ranks so far; other processes fill in theirs when they agree.
void Loop::set_own_times(double step_seconds, double wait_seconds,
                         const std::vector<backend::PhaseTimes>& devices) {
  std::fill(rank_times_.begin(), rank_times_.end(), engine::RankTimes());
  for (std::size_t i = 0; i < devices.size(); ++i) {
    rank_times_.at(strategy_.first_rank() + i) =
        engine::rank_times(step_seconds, wait_seconds, devices[i]);
  }
}

// A step ends for all ranks together: what a rank has not used of it, it has waited.
void Loop::wait_for_others(double step_seconds) {
  if (strategy_.workers() == nullptr) return;
  for (engine::RankTimes& rank : rank_times_) {
    rank[engine::StepPhase::kAllReduce] += std::max(0.0, step_seconds - rank.total());
  }
}

void Loop::handle_not_finite(const NotFinite& found) const {
  switch (not_finite_policy_) {
    case NotFinitePolicy::kStop:
      throw_not_finite(describe(found, session_), checkpointer_.last_checkpoint());
  }
}

// What is due after the step, the same on all ranks. Completes loss and accuracy.
DueActions Loop::agree(const StepOutcome& outcome, hooks::Progress& progress) {
  StepVerdict own;
  own.loss = progress.loss;
  own.accuracy = progress.accuracy;
  own.penalty = outcome.penalty;
  own.due = schedule_.due(state_.step, progress.elapsed);
  own.due.interrupted = strategy_.stop_requested();
  own.unreadable = !session_.failure.message().empty();
  const StepVerdict verdict = strategy_.agree(own, rank_times_);
  session_.failure.set_any_rank(verdict.unreadable);
  progress.loss = verdict.loss + verdict.penalty.value_or(0);
  progress.accuracy = has_classes_ ? verdict.accuracy : std::numeric_limits<double>::quiet_NaN();
  return verdict.due;
}

// Evaluates and saves. Returns why the run ends here, if it does.
std::optional<FinishReason> Loop::carry_out(DueActions due) {
  if (due.evaluate && state_.step < job_.plan.total_steps) {
    due.request = std::max(due.request, evaluator_.evaluate_between());
  }
  // An evaluation may have been cut short.
  due.interrupted = due.interrupted || strategy_.may_stop_now() || state_.evaluation_due;
  state_.stopped = state_.stopped || due.request == hooks::Request::kStop;
  const bool asks = due.request != hooks::Request::kContinue;
  if (due.save || asks || due.interrupted) checkpointer_.save();
  if (due.interrupted) return FinishReason::kInterrupted;
  if (state_.stopped) return FinishReason::kEarlyStop;
  if (session_.failure.any_rank()) stop_for_unreadable_data(session_, checkpointer_);
  return std::nullopt;
}

hooks::Finish Loop::finish(FinishReason reason) {
  strategy_.pull_full_state();
  session_.failure.clear();  // discards a read error past the last step
  hooks::Finish finish;
  finish.reason = reason;
  if (reason != FinishReason::kInterrupted) {
    Evaluator::Final end = evaluator_.evaluate_at_end();
    finish.evaluations = std::move(end.evaluations);
    checkpointer_.save();
    if (!end.is_complete || strategy_.may_stop_now()) finish.reason = FinishReason::kInterrupted;
  }
  stages_.check();
  finish.steps = state_.step;
  finish.wall_seconds = session_.elapsed();
  finish.step_seconds = step_seconds_;
  finish.times = times_;
  finish.images_per_second = step_seconds_ > 0 ? static_cast<double>(samples_) / step_seconds_ : 0;
  finish.skipped_updates = skipped_updates_;
  finish.parameters_sha256 = job_.engine.parameters_sha256();
  finish_devices(finish);
  strategy_.describe(finish);
  for (const auto& hook : job_.hooks) hook->on_finish(finish);
  strategy_.finish(finish.reason);
  return finish;
}

// The energy is that of the whole session, evaluations included, over the images that the devices
// of this process were trained on.
void Loop::finish_devices(hooks::Finish& finish) {
  const std::optional<engine::Gaps> gaps = job_.engine.gaps();
  if (gaps && gaps->count > 0) {
    finish.gap_seconds = gaps->seconds / static_cast<double>(gaps->count);
  }
  if (!sampler_) return;
  sampler_->stop();
  warn_of_devices();
  for (const engine::DeviceTotals& totals : sampler_->totals()) {
    finish.devices.push_back(totals.use());
  }
  finish.energy_joules = engine::energy_joules(finish.devices);
  const double images = static_cast<double>(samples_) * static_cast<double>(job_.engine.count()) /
                        static_cast<double>(job_.plan.replicas);
  if (finish.energy_joules && images > 0) finish.joules_per_image = *finish.energy_joules / images;
}

}  // namespace

hooks::Finish train(Job& job) { return Loop(job).run(); }

}  // namespace trainer::train
