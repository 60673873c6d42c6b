// The chief of a job with parameter servers. The session's step is the global step, which all
// workers advance.
#include "base/error.h"
#include "data/not_finite.h"
#include "train/parameter_servers.h"
#include "train/session/checkpointer.h"
#include "train/session/session.h"
#include "train/strategy/gradient_stream.h"
#include "train/strategy/strategy.h"

namespace trainer::train {
namespace {

using Result = server::Pushed::Result;

class ParameterServer final : public Strategy {
 public:
  explicit ParameterServer(ParameterServers& servers) : servers_(servers) {}

  FeatureSharing feature_sharing() const override { return FeatureSharing::kServers; }

  void describe(hooks::RunInfo& info) const override {
    info.replicas = servers_.workers();
    info.servers = servers_.describe();
  }

  void start(StageControl&) override {
    const Job& job = session().job;
    servers_.start(job.engine, common_model(job.data, job.engine), session().state.step, job.plan);
    has_full_state_ = true;
    has_latest_parameters_ = true;
  }

  void open_feed(const FeatureCaches&) override {
    const Job& job = session().job;
    stream_ = std::make_unique<GradientStream>(job.config, *job.data.train, job.engine, servers_,
                                               session().state.step);
  }
  void close_feed() override { stream_.reset(); }
  double seconds_waited() const override { return stream_->seconds_waited(); }

  // The servers number the steps: what a step is, result() finds out.
  bool launch(std::int64_t) override { return true; }

  // A gradient of this process; steps of others may lie between the one before and it.
  std::optional<StepOutcome> result() override {
    if (!has_latest_parameters_ && !servers_.pull(session().job.engine)) return std::nullopt;
    const std::int64_t before = servers_.step();
    has_full_state_ = has_latest_parameters_ = false;
    GradientStream::Step made;
    do {
      ReadFailure& failure = session().failure;
      failure.guard([&] { made = stream_->next(); });
      if (made.not_finite) check_data();
      failure.set_any_rank(!failure.message().empty());
      if (failure.any_rank()) return std::nullopt;
      if (made.not_finite) return not_finite(made, before);
      if (made.pushed.result == Result::kOver) return std::nullopt;
    } while (made.pushed.result == Result::kStale && !stop_requested());
    has_latest_parameters_ = true;
    return outcome_of(made, before);
  }

  bool stop_requested() const override {
    return Strategy::stop_requested() || servers_.client().stop_requested();
  }
  void check() const override { servers_.client().check(); }

  // The others go on training meanwhile.
  void pull_full_state() override {
    if (has_full_state_) return;
    session().state.step = servers_.read(session().job.engine);
    has_full_state_ = true;
    has_latest_parameters_ = false;
  }
  void record_checkpoint() override {
    if (!servers_.client().lost()) servers_.client().saved(session().state.step);
  }

  // A server has gone. What this process has of it is one global step's parameters, and the slots
  // of its last checkpoint. With one worker no step depends on time: the steps since then are made
  // again rather than made of such a mixture.
  std::string rescue(Checkpointer& checkpointer) override {
    const std::int64_t step = session().state.step, slots = session().saved_step;
    const bool exact = has_full_state_;
    if (step <= slots || (!exact && servers_.workers() == 1)) {
      return concat("The job was at step ", step,
                    "; last checkpoint: ", checkpointer.last_checkpoint(),
                    "; start the job again with --resume");
    }
    has_full_state_ = true;  // as much as there will be
    checkpointer.save();
    return concat("The job was at step ", step, ", saved with the parameters of that step",
                  exact ? "" : concat(" and optimizer slots of step ", slots), ": ",
                  checkpointer.last_checkpoint(), "; start the job again with --resume");
  }

  void describe(hooks::Finish& finish) const override {
    if (stream_) finish.input = stream_->describe_input();
    const server::Staleness staleness = servers_.client().staleness();
    finish.staleness = {staleness.mean, staleness.max, staleness.refused};
  }
  void finish(hooks::FinishReason reason) noexcept override {
    servers_.finish(reason == hooks::FinishReason::kInterrupted);
  }
  void fail(const std::exception& error) noexcept override { servers_.fail(error.what()); }

 private:
  // A loss that is not finite because of samples that are not is a failure of the data.
  void check_data() {
    const Job& job = session().job;
    session().failure.set_message(data::find_not_finite(job.config.data, *job.data.train));
  }

  StepOutcome not_finite(const GradientStream::Step& made, std::int64_t before) const {
    StepOutcome outcome;
    outcome.not_finite = NotFinite{*made.not_finite, made.blame, session().rate(before)};
    return outcome;
  }

  StepOutcome outcome_of(const GradientStream::Step& made, std::int64_t before) const {
    const StepPlan& plan = session().job.plan;
    StepOutcome outcome;
    outcome.penalty = made.penalty;
    outcome.times = {made.times};
    hooks::Progress& progress = outcome.progress;
    progress.step = made.pushed.step;
    progress.epoch = plan.epoch(progress.step);
    progress.steps = progress.step - before;
    progress.samples = progress.steps * plan.batch * plan.accumulate;
    progress.loss = made.loss / static_cast<double>(made.samples);
    progress.accuracy = static_cast<double>(made.correct) / static_cast<double>(made.samples);
    progress.learning_rate = made.pushed.learning_rate;
    progress.staleness = made.pushed.staleness;
    return outcome;
  }

  ParameterServers& servers_;
  std::unique_ptr<GradientStream> stream_;
  // Whether the engine holds one state of all servers with all slots, and the newest parameters.
  bool has_full_state_ = false, has_latest_parameters_ = false;
};

}  // namespace

std::unique_ptr<Strategy> make_parameter_server(ParameterServers& servers) {
  return std::make_unique<ParameterServer>(servers);
}

}  // namespace trainer::train
