#include "train/loop.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>
#include <stdexcept>
#include <utility>

#include "base/error.h"
#include "checkpoint/checkpoint.h"
#include "data/not_finite.h"
#include "engine/evaluate.h"
#include "model/import.h"
#include "train/asynchronous.h"
#include "train/feature_cache.h"
#include "train/feed.h"
#include "train/freeze_check.h"
#include "train/open.h"
#include "train/signals.h"
#include "train/stages.h"
#include "train/state.h"

namespace trainer::train {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

class Loop {
 public:
  explicit Loop(Job& job)
      : job_(job),
        config_(job.config),
        plan_(job.plan),
        rate_(learning_rate_of(config_, plan_)),
        stages_(config_, plan_),
        stage_models_(stage_models(config_, sample_spec(job.data), stages_.first_steps())),
        checkpoint_due_(config_.run.checkpoint_every, plan_.steps_per_epoch),
        evaluation_due_(config_.run.evaluate_every, plan_.steps_per_epoch),
        has_classes_(engine::has_classes(*job.data.train,
                                         static_cast<graph::LossKind>(config_.model.loss))) {
    if (is_chief()) store_.emplace(checkpoint_folder(job.run), config_.run.keep);
  }

  hooks::Finish run() {
    if (job_.servers == nullptr) return run_to_the_end();
    try {
      return run_to_the_end();
    } catch (const PeerError& error) {
      throw PeerError(concat(error.what(), ". ", rescue()));
    }
  }

 private:
  hooks::Finish run_to_the_end() {
    begin();
    std::string reason = state_.step >= plan_.total_steps ? "already done" : "done";
    if (state_.evaluation_due && state_.step < plan_.total_steps) {
      evaluate_between();
      save();
      if (state_.evaluation_due) return finish("interrupted");
    }
    if (state_.stopped) reason = "early stop";
    open_feed();
    while (state_.step < plan_.total_steps && !state_.stopped) {
      const Clock::time_point step_start = Clock::now();
      if (begin_stage()) open_feed();
      const auto made = job_.servers == nullptr ? step(*feed_) : step_with_servers();
      if (unreadable_) stop_for_data();
      if (!made) break;  // others have made the last step
      hooks::Progress progress = *made;
      progress.wait_seconds = seconds_waited() - waited_;
      waited_ = seconds_waited();
      progress.step_seconds = seconds_since(step_start);
      progress.elapsed = seconds_since(start_);
      steps_seconds_ += progress.step_seconds;
      samples_ += progress.samples;
      Decisions decisions = decide(progress);
      hooks::Request request = tell([&](hooks::Hook& hook) { return hook.on_step(progress); });
      if (job_.workers != nullptr) {  // the others learn of it with the next step
        asked_ = request;
        request = hooks::Request::kContinue;
      }
      request = std::max(request, decisions.request);

      if (decisions.evaluate && state_.step < plan_.total_steps) {
        request = std::max(request, evaluate_between());
      }
      if (job_.workers == nullptr) decisions.interrupted = interrupted();
      decisions.interrupted = decisions.interrupted || state_.evaluation_due;  // it was cut short
      state_.stopped = state_.stopped || request == hooks::Request::kStop;
      if (decisions.save || request != hooks::Request::kContinue || decisions.interrupted) save();
      if (decisions.interrupted) {
        reason = "interrupted";
        break;
      }
      if (state_.stopped) {
        reason = "early stop";
      } else if (unreadable_) {
        stop_for_data();
      }
    }
    return finish(reason);
  }

  bool is_chief() const { return job_.workers == nullptr || job_.workers->is_chief(); }

  // What happens after a step, the same on all ranks.
  struct Decisions {
    bool evaluate = false, save = false, interrupted = false;
    hooks::Request request = hooks::Request::kContinue;  // of a hook
  };

  // With workers: the sums of loss and accuracy come along, a signal of any rank counts, and the
  // chief's clock decides what is due by time.
  Decisions decide(hooks::Progress& progress) {
    Decisions decisions;
    decisions.evaluate = evaluation_due_.due(state_.step, progress.elapsed);
    decisions.save = checkpoint_due_.due(state_.step, progress.elapsed);
    std::optional<double> penalty = penalty_;
    if (job_.workers != nullptr) {
      const auto chiefs = [&](bool value) { return is_chief() && value ? 1.0 : 0.0; };
      double numbers[kDecisionNumbers] = {progress.loss,
                                          progress.accuracy,
                                          SignalWatch::received() != nullptr ? 1.0 : 0.0,
                                          chiefs(decisions.evaluate),
                                          chiefs(decisions.save),
                                          chiefs(asked_ == hooks::Request::kSave),
                                          chiefs(asked_ == hooks::Request::kStop),
                                          penalty.value_or(0),
                                          penalty ? 1.0 : 0.0,
                                          failure_.empty() ? 0.0 : 1.0};
      job_.workers->control().all_reduce(std::span<double>(numbers));
      progress.loss = numbers[0];
      progress.accuracy = numbers[1];
      decisions.interrupted = numbers[2] > 0;
      decisions.evaluate = numbers[3] > 0;
      decisions.save = numbers[4] > 0;
      if (numbers[5] > 0) decisions.request = hooks::Request::kSave;
      if (numbers[6] > 0) decisions.request = hooks::Request::kStop;
      // The same on all that had samples.
      penalty = numbers[7] / numbers[8];
      unreadable_ = numbers[9] > 0;
    }
    progress.loss += penalty.value_or(0);
    return decisions;
  }

  // All ranks go on from what the chief has read: the others need none of its files.
  void take_chiefs_state() {
    checkpoint::Metadata metadata = to_metadata(state_, config_, job_.data, plan_);
    job_.workers->of_chief(metadata);
    if (!is_chief()) {
      state_ = from_metadata(metadata, config_, job_.data, plan_, "the checkpoint of rank 0");
      enter(stages_.after(state_.step));
    }
    std::vector<checkpoint::Tensor> tensors = job_.engine.tensors();
    job_.workers->of_chief(tensors);
    if (!is_chief()) job_.engine.load({std::move(tensors), {}}, "the variables of rank 0");
  }

  // Starts from the last checkpoint when asked to, from the initialisers otherwise.
  void begin() {
    job_.engine.initialise(config_.seed);
    if (is_chief() && job_.start == Start::kResume) resume();
    // Only now: a checkpoint that the config does not fit keeps the config that it was made with.
    if (is_chief()) write_config(job_.run, config_);
    if (is_chief() && state_.step == 0) import_weights();
    if (job_.workers != nullptr) take_chiefs_state();
    saved_step_ = state_.step;
    frozen_.emplace(job_.engine);
    open_features();
    if (job_.servers != nullptr) start_servers();
    hooks::RunInfo info;
    info.name = config_.name;
    info.dir = job_.run;
    info.classes = job_.data.classes;
    info.total_steps = plan_.total_steps;
    info.steps_per_epoch = plan_.steps_per_epoch;
    info.first_step = state_.step;
    info.global_batch = plan_.batch * plan_.accumulate;
    info.devices = static_cast<int>(plan_.replicas);
    info.passes = plan_.passes;
    if (job_.servers != nullptr) {
      info.devices = job_.servers->workers();
      info.servers = job_.servers->describe();
    }
    info.weights = weights_;
    // Ramp_up has rates of its own.
    if (!std::holds_alternative<config::RampUpSchedule>(config_.schedule.kind)) {
      info.scaled_rate = scaled_rate(config_, plan_.replicas).text();
    }
    warn_of_small_batches();
    for (const auto& hook : job_.hooks) {
      const auto saved = state_.hooks.find(hook->name());
      if (saved != state_.hooks.end()) hook->restore(saved->second);
      hook->on_start(info);
    }
    if (state_.step == 0) save();
  }

  // Statistics of few samples are noise, which the moving ones do not have.
  void warn_of_small_batches() const {
    constexpr std::int64_t kFew = 16;
    const std::int64_t own = plan_.batch / plan_.replicas;
    if (plan_.replicas == 1 || own >= kFew || config_.parallel.batch_norm.sync ||
        !engine::uses_batch_statistics(job_.engine.model())) {
      return;
    }
    job_.warn(concat("batch norm takes its statistics over the ", own,
                     " samples of one replica; parallel.batch_norm.sync: true takes them over all ",
                     plan_.batch));
  }

  void import_weights() {
    const model::Import import = model::import_weights(job_.engine.model(), config_.model);
    job_.engine.write(import.tensors);
    const model::ImportReport& report = import.report;
    if (!report.path.empty()) weights_ = report.line();
    if (!report.initialised.empty() || !report.extra.empty()) job_.warn(report.text());
  }

  void resume() {
    const std::string path = checkpoint_folder(job_.run).string();
    std::vector<std::string> warnings;
    const auto file = store_->load_latest(warnings);
    for (const std::string& warning : warnings) job_.warn(warning);
    if (!file && !warnings.empty()) {
      throw DataError(path, concat("none of the ", warnings.size(),
                                   " checkpoints can be used; repair one, or start anew with "
                                   "--overwrite"));
    }
    if (!file) {
      job_.warn("no checkpoint in " + path + ": starting anew");
      return;
    }
    state_ = from_metadata(file->metadata, config_, job_.data, plan_, path);
    for (const std::string& change : changes_since(file->metadata, config_).warnings)
      job_.warn("since the checkpoint " + change);
    enter(stages_.after(state_.step));
    job_.engine.load(*file, path);
    saved_ = to_metadata(state_, config_, job_.data, plan_);
    // The run may have been killed after it saved its best and before it marked it.
    if (state_.best && state_.best_step == state_.step) store_->mark_best(state_.step);
  }

  // Freezes what the next step's stage has frozen; whether that is anything new.
  bool begin_stage() {
    const std::size_t stage = stages_.of(state_.step);
    if (stage == state_.stage) return false;
    // Their threads may still read the features that are let go below.
    feed_.reset();
    stream_.reset();
    frozen_->check(job_.engine);
    enter(stage);
    frozen_.emplace(job_.engine);
    open_features();
    return true;
  }

  void enter(std::size_t stage) {
    if (stage != 0) job_.engine.change_frozen(stage_models_[stage]);
    state_.stage = stage;
  }

  // Kept features would not pay: with servers, a process sees other samples in every epoch.
  void open_features() {
    if (job_.servers != nullptr) return;
    const std::int64_t first = stages_.first_steps()[state_.stage];
    const FeaturePlan plan = plan_features(config_, job_.engine, feature_splits(job_.data),
                                           plan_.epoch(plan_.total_steps - first),
                                           sharing_of(job_.workers), state_.stage);
    if (plan.reason_matters && !plan.reason.empty()) {
      job_.warn("features of the frozen layers are " + describe(plan));
    }
    features_ = FeatureCaches(plan, config_, job_.engine, job_.data, job_.run, job_.workers);
    if (!features_.problem().empty()) {
      job_.warn("features of the frozen layers are not kept: " + features_.problem());
    }
  }

  void open_feed() {
    waited_ = 0;
    told_of_batch_ = false;
    if (job_.servers != nullptr) {
      stream_ = std::make_unique<GradientStream>(config_, *job_.data.train, job_.engine,
                                                 *job_.servers, state_.step);
      return;
    }
    data::LoaderOptions options;
    options.batch_size = plan_.batch;
    options.passes = plan_.passes;
    if (job_.workers != nullptr) {
      options.rank = job_.workers->rank();
      options.ranks = job_.workers->size();
    }
    options.seed = config_.seed;
    options.shuffle = config_.data.shuffle;
    options.prefetch = config_.data.prefetch;
    options.threads = config_.data.threads;
    options.first_step = plan_.batches(state_.step).first;
    const StepPlan::Batches last = plan_.batches(std::max<std::int64_t>(plan_.total_steps - 1, 0));
    options.end_step = std::max(options.first_step, last.first + last.count);
    feed_ = std::make_unique<Feed>(*job_.data.train, features_.of(job_.data.train.get()),
                                   job_.engine, options);
  }

  double seconds_waited() const {
    return job_.servers != nullptr ? stream_->seconds_waited() : feed_->seconds_waited();
  }

  // ---- Data that cannot be read ----

  // Keeps the message of what cannot be read for stop_for_data().
  template <class Read>
  void try_to_read(const Read& read) {
    try {
      read();
    } catch (const DataError& error) {
      failure_ = error.what();
    }
  }

  // Whether a loss that is not finite comes of samples that are not, the same on all workers.
  bool data_is_not_finite() {
    failure_ = data::find_not_finite(config_.data, *job_.data.train);
    unreadable_ = !failure_.empty();
    return unreadable_;
  }

  // Whether any of the workers has such a message. Collective.
  bool any_failure() {
    std::int64_t failed = failure_.empty() ? 0 : 1;
    if (job_.workers != nullptr) job_.workers->control().all_reduce(std::span(&failed, 1));
    return failed > 0;
  }

  // The next batch of a step; null when a worker cannot read its part. All of them end then, before
  // they make a call together that one of them would be missing in.
  const data::Batch* next_batch(Feed& feed) {
    const data::Batch* batch = nullptr;
    try_to_read([&] { batch = &feed.next(); });
    if (!std::exchange(told_of_batch_, false)) unreadable_ = any_failure();
    return unreadable_ ? nullptr : batch;
  }

  // Of the next step's first batch workers learn with the numbers of this step: see decide().
  void look_ahead(Feed& feed) {
    if (job_.workers == nullptr || state_.step >= plan_.total_steps) return;
    try_to_read([&] { feed.look_ahead(); });
    told_of_batch_ = true;
  }

  // The state is that of the last step: all workers save it, then the one at fault says why.
  [[noreturn]] void stop_for_data() {
    save();
    if (job_.workers != nullptr) job_.workers->wait();  // for the chief to have saved
    const bool may_replace = config::is_image_format(config_.data.format) &&
                             config_.data.on_error == config::OnError::kFail;
    if (!failure_.empty()) {
      throw Error(kExitData,
                  concat(failure_, ". Stopped after step ", state_.step, ", saved as ",
                         last_checkpoint(), "; go on with --resume when the data can be read again",
                         may_replace ? ", or with --resume --set data.on_error=replace" : ""));
    }
    job_.workers->wait();
    throw std::logic_error("a worker that could not read its data has gone on");
  }

  // One update from `accumulate` batches; nothing when one cannot be read.
  std::optional<hooks::Progress> step(Feed& feed) {
    if (job_.workers != nullptr) {
      job_.workers->set_phase(concat("training, step ", state_.step + 1, known_checkpoint()));
    }
    const StepPlan::Batches batches = plan_.batches(state_.step);
    hooks::Progress progress;
    progress.samples = plan_.samples_of(state_.step);
    backend::Scalars scalars;
    scalars.learning_rate = static_cast<float>(rate_(state_.step));
    scalars.update = static_cast<std::uint64_t>(state_.step + 1);
    scalars.loss_scale = 1.0 / static_cast<double>(progress.samples);
    double loss = 0, correct = 0;
    std::int64_t done = 0;  // samples of this step's batches so far, of all workers
    engine::Replicas::Statistics before;
    if (batches.count > 1) before = job_.engine.statistics();
    for (std::int64_t i = 0; i < batches.count; ++i) {
      const data::Batch* next = next_batch(feed);
      if (next == nullptr) {
        if (i > 0) job_.engine.restore(before);
        return std::nullopt;
      }
      const data::Batch& batch = *next;
      const engine::HostBatch input = feed.host_batch(batch);
      scalars.accumulate = i > 0;
      scalars.apply = i + 1 == batches.count;
      scalars.all_samples = batch.global;
      scalars.first_sample = static_cast<std::uint64_t>(done + batch.offset);
      const engine::StepResult numbers = job_.engine.step(input, scalars);
      if (!numbers.finite) {
        if (data_is_not_finite()) {
          if (i > 0) job_.engine.restore(before);
          return std::nullopt;
        }
        stop_not_finite(batch, input, scalars);
      }
      feed.keep_features(batch);
      loss += numbers.loss;
      correct += static_cast<double>(numbers.correct);
      penalty_ = numbers.penalty;
      done += batch.global;
      feed.release();
    }
    ++state_.step;
    progress.step = state_.step;
    progress.epoch = plan_.epoch(state_.step);
    progress.loss = loss / static_cast<double>(progress.samples);  // penalty: see decide()
    progress.accuracy = accuracy(correct, progress.samples);
    progress.learning_rate = static_cast<double>(scalars.learning_rate);
    look_ahead(feed);
    return progress;
  }

  double accuracy(double correct, std::int64_t samples) const {
    return has_classes_ ? correct / static_cast<double>(samples)
                        : std::numeric_limits<double>::quiet_NaN();
  }

  // ---- With parameter servers: state_.step is the global step that all workers advance ----

  void start_servers() {
    job_.servers->start(job_.engine, common_model(job_.data, job_.engine), state_.step, plan_);
    whole_ = true;
    newest_ = true;
  }

  // A gradient of this process; steps of others may lie between the one before and it. Nothing when
  // the last step was made without it.
  std::optional<hooks::Progress> step_with_servers() {
    if (!newest_ && !job_.servers->pull(job_.engine)) return std::nullopt;
    const std::int64_t before = job_.servers->step();
    whole_ = newest_ = false;
    GradientStream::Step given;
    do {
      try_to_read([&] { given = stream_->next(); });
      unreadable_ = !failure_.empty();
      if (unreadable_) return std::nullopt;
      if (given.not_finite && data_is_not_finite()) return std::nullopt;
      if (given.not_finite) stop_not_finite(*given.not_finite, rate_(before), given.blame);
      if (given.pushed.result == server::Pushed::Result::kOver) return std::nullopt;
    } while (given.pushed.result == server::Pushed::Result::kStale && !interrupted());
    newest_ = true;
    state_.step = given.pushed.step;
    hooks::Progress progress;
    progress.step = state_.step;
    progress.epoch = plan_.epoch(state_.step);
    progress.steps = state_.step - before;
    progress.samples = progress.steps * plan_.batch * plan_.accumulate;
    progress.loss = given.loss / static_cast<double>(given.samples);
    progress.accuracy = accuracy(static_cast<double>(given.correct), given.samples);
    progress.learning_rate = given.pushed.learning_rate;
    progress.staleness = given.pushed.staleness;
    return progress;
  }

  // One state of all servers, to evaluate and to save; others go on training meanwhile.
  void gather() {
    if (job_.servers == nullptr || whole_) return;
    state_.step = job_.servers->read(job_.engine);
    whole_ = true;
    newest_ = false;
  }

  bool interrupted() const {
    return SignalWatch::received() != nullptr ||
           (job_.servers != nullptr && job_.servers->client().stop_requested());
  }

  // A server has gone. What this process has of it is one global step's parameters, and the slots
  // of its last checkpoint.
  std::string rescue() {
    if (state_.step <= saved_step_) {
      return concat("The job was at step ", state_.step, "; last checkpoint: ", last_checkpoint());
    }
    const std::int64_t slots = saved_step_;
    const bool exact = whole_;
    whole_ = true;
    save();
    return concat("The job was at step ", state_.step, ", saved with the parameters of that step",
                  exact ? "" : concat(" and optimizer slots of step ", slots), ": ",
                  last_checkpoint(), "; start the job again with --resume");
  }

  [[noreturn]] void stop_not_finite(const data::Batch& batch, const engine::HostBatch& input,
                                    const backend::Scalars& scalars) {
    const std::string blame =
        data::blame_samples(*job_.data.train, batch.indices, job_.engine.losses());
    stop_not_finite(job_.engine.find_not_finite(input, scalars),
                    static_cast<double>(scalars.learning_rate), blame);
  }

  [[noreturn]] void stop_not_finite(const std::string& where, double rate,
                                    const std::string& blame) {
    throw_not_finite(concat("the loss is not finite at step ", state_.step + 1, " (epoch ",
                            static_cast<std::int64_t>(plan_.epoch(state_.step)) + 1,
                            ", learning rate ", rate, ")",
                            where.empty() ? "" : ": first seen in " + where, ", ", blame,
                            ". The parameters were not updated"));
  }

  std::optional<hooks::Evaluation> evaluate_split(const char* name, const data::Dataset* dataset) {
    if (dataset == nullptr) return std::nullopt;
    const Clock::time_point begin = Clock::now();
    engine::EvaluateOptions options = engine::evaluate_options(config_);
    if (job_.workers != nullptr) {
      options.workers = &job_.workers->control();
      job_.workers->set_phase(
          concat("evaluating ", name, " after step ", state_.step, known_checkpoint()));
    }
    options.cancelled = [this] {
      if (job_.servers != nullptr) job_.servers->client().check();
      return interrupted();
    };
    std::optional<engine::Metrics> metrics;
    try_to_read(
        [&] { metrics = engine::evaluate(job_.engine, *dataset, options, features_.of(dataset)); });
    if (!metrics) {
      unreadable_ = any_failure();
      return std::nullopt;
    }
    return hooks::Evaluation{name, state_.step, plan_.epoch(state_.step), seconds_since(begin),
                             *metrics};
  }

  // On the validation split, or on the test split where there is none.
  hooks::Request evaluate_between() {
    gather();
    const bool validation = job_.data.validation != nullptr;
    between_ = evaluate_split(validation ? "validation" : "test",
                              validation ? job_.data.validation.get() : job_.data.test.get());
    const bool wanted = validation || job_.data.test != nullptr;
    state_.evaluation_due = wanted && !between_;
    if (unreadable_ && state_.evaluation_due) stop_for_data();
    if (!between_) return hooks::Request::kContinue;
    return note(*between_, true);
  }

  // Tells the hooks, and saves and marks a new best. The test split never chooses.
  hooks::Request note(const hooks::Evaluation& evaluation, bool may_stop) {
    hooks::Request request =
        tell([&](hooks::Hook& hook) { return hook.on_evaluation(evaluation); });
    if (job_.workers != nullptr) {
      const bool stop = job_.workers->of_chief(request == hooks::Request::kStop);
      const bool keep = job_.workers->of_chief(request == hooks::Request::kSave);
      request = stop   ? hooks::Request::kStop
                : keep ? hooks::Request::kSave
                       : hooks::Request::kContinue;
    }
    if (may_stop && request == hooks::Request::kStop) state_.stopped = true;
    const std::string& name = config_.run.best;
    const std::optional<double> value =
        name.empty() ? std::nullopt : hooks::metric_of(evaluation, name);
    const bool better = value && std::isfinite(*value) &&
                        (!state_.best || (hooks::larger_is_better(name) ? *value > *state_.best
                                                                        : *value < *state_.best));
    if (better) {
      state_.best = value;
      state_.best_step = state_.step;
      save();
      if (is_chief()) store_->mark_best(state_.step);
    }
    return request;
  }

  // Nothing to do when the last checkpoint says it all already.
  void save() {
    gather();
    for (const auto& hook : job_.hooks) {
      if (const std::string text = hook->save(); !text.empty()) state_.hooks[hook->name()] = text;
    }
    checkpoint::Metadata metadata = to_metadata(state_, config_, job_.data, plan_);
    bool due = metadata != saved_;
    if (job_.workers != nullptr) {
      job_.workers->set_phase(
          concat("saving step ", state_.step, saved_step_ < state_.step ? known_checkpoint() : ""));
      due = job_.workers->of_chief(due);
    }
    if (!due) return;
    job_.engine.check_equal();
    const std::vector<checkpoint::Tensor> tensors = job_.engine.tensors();
    check_finite(tensors);
    saved_ = std::move(metadata);
    saved_step_ = state_.step;
    if (!is_chief()) return;
    const Path path = store_->save(state_.step, tensors, saved_);
    if (job_.servers != nullptr && !job_.servers->client().lost()) {
      job_.servers->client().saved(state_.step);
    }
    for (const auto& hook : job_.hooks) hook->on_checkpoint(path);
  }

  // A loss may be finite and its gradient not: such parameters never replace a good checkpoint.
  void check_finite(const std::vector<checkpoint::Tensor>& tensors) const {
    for (const checkpoint::Tensor& tensor : tensors) {
      if (std::all_of(tensor.values.begin(), tensor.values.end(),
                      [](float v) { return std::isfinite(v); })) {
        continue;
      }
      throw_not_finite(concat("variable ", tensor.name, " is not finite after step ", state_.step,
                              " (learning rate ", rate_(std::max<std::int64_t>(state_.step - 1, 0)),
                              ")"));
    }
  }

  [[noreturn]] void throw_not_finite(const std::string& what) const {
    throw CheckError(concat(
        what, ". Last good checkpoint: ", last_checkpoint(),
        ". Try a lower learning rate, a warm-up or optimizer.global_clip_norm, then --resume."));
  }

  // Of the phases that the others name when this process goes.
  std::string known_checkpoint() const { return concat(", last checkpoint at step ", saved_step_); }

  std::string last_checkpoint() const {
    if (!is_chief()) return concat("rank 0's of step ", saved_step_);
    const auto saved = store_->list();
    return saved.empty() ? "none" : saved.back().path.string();
  }

  hooks::Finish finish(const std::string& reason) {
    hooks::Finish finish;
    gather();
    failure_.clear();  // of a batch that nobody will ask for
    unreadable_ = false;
    bool late = false;
    if (reason != "interrupted") {
      for (const auto& [name, dataset] : {std::pair{"validation", job_.data.validation.get()},
                                          std::pair{"test", job_.data.test.get()}}) {
        const bool known = between_ && between_->split == name && between_->step == state_.step;
        const auto evaluation = known ? between_ : evaluate_split(name, dataset);
        late = late || (dataset != nullptr && !evaluation);
        if (unreadable_) stop_for_data();
        if (!evaluation) continue;
        if (!known) note(*evaluation, false);
        finish.evaluations.push_back(*evaluation);
      }
      save();
    }
    frozen_->check(job_.engine);
    finish.steps = state_.step;
    finish.seconds = seconds_since(start_);
    finish.images_per_second =
        steps_seconds_ > 0 ? static_cast<double>(samples_) / steps_seconds_ : 0;
    late = late || (job_.workers == nullptr && interrupted());
    if (job_.servers != nullptr) {
      const server::Staleness staleness = job_.servers->client().staleness();
      finish.staleness = {staleness.mean, staleness.max, staleness.refused};
    }
    finish.reason = late ? "interrupted" : reason;
    finish.parameters_sha256 = job_.engine.parameters_sha256();
    for (const auto& hook : job_.hooks) hook->on_finish(finish);
    return finish;
  }

  template <class Call>
  hooks::Request tell(const Call& call) {
    hooks::Request strongest = hooks::Request::kContinue;
    for (const auto& hook : job_.hooks) strongest = std::max(strongest, call(*hook));
    return strongest;
  }

  Job& job_;
  const config::Config& config_;
  const StepPlan& plan_;
  SignalWatch signals_;
  std::optional<checkpoint::Store> store_;  // the chief's
  optim::LearningRate rate_;
  Stages stages_;
  std::vector<graph::Graph> stage_models_;
  hooks::Every checkpoint_due_, evaluation_due_;
  bool has_classes_;
  RunState state_;
  checkpoint::Metadata saved_;  // of the last checkpoint; it has the step
  std::int64_t saved_step_ = 0;
  hooks::Request asked_ = hooks::Request::kContinue;  // by a hook of the chief, of its workers
  std::optional<FreezeCheck> frozen_;
  FeatureCaches features_;
  std::unique_ptr<Feed> feed_;
  std::unique_ptr<GradientStream> stream_;  // in place of the feed, with servers
  std::optional<double> penalty_;           // of the last step, when this process had samples
  double waited_ = 0;                       // of the feed or stream, until the last step
  // With servers: whether the engine holds one state with all slots, and the newest parameters.
  bool whole_ = false, newest_ = false;
  std::string failure_;         // what this process cannot read; "" for nothing
  bool unreadable_ = false;     // there is a failure_ of some worker
  bool told_of_batch_ = false;  // whether all workers know if the next batch can be read
  std::string weights_;         // what came of the weight file
  Clock::time_point start_ = Clock::now();
  std::optional<hooks::Evaluation> between_;  // the last one before the end
  double steps_seconds_ = 0;
  std::int64_t samples_ = 0;
};

}  // namespace

hooks::Finish train(Job& job) { return Loop(job).run(); }

}  // namespace trainer::train
