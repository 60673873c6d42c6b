// Makes steps with all ranks together, or in one process alone: the ranks divide the samples of a
// batch, and every update uses the gradients of all ranks.
#pragma once

#include <deque>
#include <memory>
#include <optional>

#include "backend/backend.h"
#include "engine/engine.h"
#include "train/features/feed.h"
#include "train/process_group.h"
#include "train/steps/steps.h"

namespace trainer::train {

class SynchronousSteps final : public Steps {
 public:
  // `context` must outlive it.
  explicit SynchronousSteps(RunContext& context);
  ~SynchronousSteps() override { SynchronousSteps::close_feed(); }
  SynchronousSteps(const SynchronousSteps&) = delete;
  SynchronousSteps& operator=(const SynchronousSteps&) = delete;

  void open_feed(FeatureCaches& features) override;
  void close_feed() override;
  double seconds_waited() const override { return feed_->seconds_waited(); }
  double read_seconds() const override { return feed_ ? feed_->read_seconds() : 0; }
  std::string describe_feed() const override { return feed_ ? feed_->describe() : ""; }
  int max_in_flight() const override;
  bool launch(std::int64_t step) override;
  std::optional<StepOutcome> result() override;

 private:
  void prepare_short_batch(std::int64_t end_batch);

  // A launched step, which has one call per batch.
  struct Step {
    std::int64_t number = 0;  // counts from 0
    std::int64_t samples = 0;
    double learning_rate = 0;
    hooks::StepInput input = hooks::StepInput::kSamples;
    double loss = 0;  // sums over the samples of this process
    std::int64_t correct = 0;
    std::uint64_t sample_ids = 0;   // the share of this process
    std::optional<double> penalty;  // the penalty of the newest call
    std::optional<NotFinite> not_finite;
    bool has_bad_data = false;               // its samples are not finite
    bool skipped = false;                    // engine::StepResult::skipped
    double gradient_norm = 0;                // the newest call makes it, the only one that updates
    std::vector<backend::PhaseTimes> times;  // one per replica
    bool is_broken() const { return not_finite || has_bad_data; }
  };
  // A launched call whose result was not read. The feed holds its batch.
  struct Call {
    Step* step;
    const data::Batch* batch;
    engine::HostBatch input;
    backend::Scalars scalars;
  };

  bool launch_calls(Step& step);
  // Returns whether the moving statistics before a step must be kept: every call changes them, even
  // in a step that is abandoned.
  bool keeps_statistics(const Step& step) const;
  void restore_statistics(const Step& step);
  const data::Batch* next_batch();
  void read_oldest_call();
  void read_all_calls();
  void explain_not_finite(const Call& call);
  void explain_update(const Call& call);
  // Waits for the batch of the next launch, so that a read error travels in the agreement of the
  // step that was read last.
  void prefetch_next_batch();

  RunContext& context_;
  ProcessGroup& group_;
  std::unique_ptr<Feed> feed_;
  std::deque<Step> steps_;  // the steps in flight, oldest first
  std::deque<Call> calls_;
  std::int64_t next_step_ = 0;  // the next step to launch
  // The statistics before the step with several calls that is being launched.
  engine::Engine::Statistics statistics_;
  bool has_statistics_ = false;
  bool next_batch_agreed_ = false;  // the ranks have agreed that the next batch can be read
};

// Makes the steps of a run, whose context must outlive them.
std::unique_ptr<Steps> make_synchronous_steps(RunContext& context);

}  // namespace trainer::train
