#include "commands/profile/layer_profile.h"

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <set>

#include "base/numbers/seconds.h"
#include "commands/measure/batches.h"
#include "commands/profile/idle_time.h"
#include "compile/compile.h"
#include "engine/compile_options.h"
#include "engine/evaluate.h"
#include "optim/optim.h"
#include "train/schedule/training_plan.h"

namespace trainer::commands {
namespace {

using backend::WorkRecord;
using engine::StepPhase;
using Clock = ProfileTimeline::Clock;

constexpr int kWarmUp = 3;

// Steps of a config.
class StepRunner {
 public:
  StepRunner(engine::Engine& engine, const data::Dataset& dataset, const config::Config& config)
      : engine_(engine),
        plan_(train::plan_steps(config, dataset.size())),
        rate_(learning_rate(config, plan_)) {
    data::LoaderOptions options = loader_options(config, engine);
    options.batch_size = plan_.batch;
    options.passes_per_epoch = plan_.passes_per_epoch;
    options.adapt = true;
    options.when_read = [this](const data::ReadBatch& read) {
      const std::lock_guard lock(mutex_);
      reads_.push_back(read);
    };
    loader_ = data::make_loader(dataset, options);
  }
  // The devices may still read the memory of batches in flight.
  ~StepRunner() { engine_.finish_uploads(); }
  StepRunner(const StepRunner&) = delete;
  StepRunner& operator=(const StepRunner&) = delete;

  // Runs a step and waits for it.
  ProfileTimeline::Step step() {
    ProfileTimeline::Step step = launch();
    finish();
    step.end = Clock::now();
    return step;
  }

  struct Loop {
    double seconds = 0, waited = 0;  // the means of a step; waited: for data
  };
  // Runs steps as training does: the oldest is waited for when as many are in flight as the devices
  // take. Measures `steps` of them, from the first that has others before it.
  Loop run_in_flight(std::int64_t steps) {
    const int in_flight = engine_.replica().launches_in_flight();
    for (int i = 1; i < in_flight; ++i) launch();
    Loop loop;
    const Clock::time_point start = Clock::now();
    for (std::int64_t i = 0; i < steps; ++i) {
      const ProfileTimeline::Step step = launch();
      loop.waited += seconds_between(step.start, step.got_batch) / static_cast<double>(steps);
      finish();
    }
    loop.seconds = seconds_since(start) / static_cast<double>(steps);
    for (int i = 1; i < in_flight; ++i) finish();
    return loop;
  }

  std::vector<data::ReadBatch> take_reads() {
    const std::lock_guard lock(mutex_);
    return std::exchange(reads_, {});
  }

 private:
  // Sets the scalars of the next update. The schedule counts updates from 0, the scalars from 1.
  void advance_scalars(std::int64_t samples) {
    scalars_.learning_rate = static_cast<float>(rate_(static_cast<std::int64_t>(scalars_.update)));
    ++scalars_.update;
    scalars_.loss_scale = 1.0 / static_cast<double>(samples);
  }
  // Returns the step without its end.
  ProfileTimeline::Step launch() {
    ProfileTimeline::Step step;
    step.start = Clock::now();
    const data::Batch* batch = loader_->next();
    step.got_batch = Clock::now();
    step.samples = batch->global;
    advance_scalars(batch->global);
    engine_.launch(engine::host_batch(*batch, /*is_features=*/false), scalars_);
    return step;
  }
  void finish() {
    engine_.result();
    loader_->release();
  }

  engine::Engine& engine_;
  train::TrainingPlan plan_;
  optim::LearningRate rate_;
  std::mutex mutex_;
  std::vector<data::ReadBatch> reads_;
  std::unique_ptr<data::Loader> loader_;
  backend::Scalars scalars_{0, 0};
};

// What a step of the graphs that run has to do, by node and whether it is of the backward phase.
struct Amount {
  double flops = 0, bytes = 0;
};
using Work = std::map<std::pair<std::string, bool>, Amount>;

// Returns the bytes of a node's operands: every input is read once and every output is written
// once, even where it shares the memory of an input. A reshape moves nothing.
double count_operand_bytes(const graph::Graph& graph, const graph::Node& node, double samples) {
  if (std::holds_alternative<graph::Reshape>(node.op)) return 0;
  double bytes = 0;
  for (const std::vector<graph::ValueId>& ids : {node.inputs, node.outputs}) {
    for (const graph::ValueId id : ids) {
      const graph::Value& value = graph[id];
      bytes += static_cast<double>(value.shape.elements()) * (value.shape.batched() ? samples : 1) *
               static_cast<double>(size_of(value.type));
    }
  }
  return bytes;
}

void add_work(const graph::Graph& graph, double samples, Work& work) {
  for (const graph::Node& node : graph.nodes) {
    Amount& amount = work[{node.name, node.phase >= graph::Phase::kBackward}];
    amount.flops += static_cast<double>(graph::flops(graph, node)) * samples;
    amount.bytes += count_operand_bytes(graph, node, samples);
  }
}

Work count_work(const engine::Engine& engine, const config::Config& config,
                const compile::Options& options, double samples) {
  Work work;
  const compile::FrozenSplit split = compile::split_frozen(engine.replica().model(), options);
  const bool frozen = split.reason.empty();
  if (frozen) add_work(split.prefix, samples, work);
  const graph::Graph trained = engine::training_model(
      frozen ? split.suffix : engine.replica().model(), config::mixes_samples(config.data));
  add_work(compile::training_graph(trained, options), samples, work);
  return work;
}

void add_implementation(ProfileRow& row, std::string_view text) {
  if (row.implementations.find(text) != std::string::npos) return;
  if (!row.implementations.empty()) row.implementations += "; ";
  row.implementations += text;
}

ProfileRow other_row(std::string_view name, double seconds) {
  ProfileRow row;
  row.name = name;
  row.is_layer = false;
  row.forward_seconds = seconds;
  return row;
}

// The rows of all ranks' records of `steps` steps.
std::vector<ProfileRow> make_rows(const ProfileTimeline& timeline, const Work& work) {
  std::vector<ProfileRow> layers;
  std::map<std::string, std::size_t, std::less<>> places;
  std::map<WorkRecord::Kind, double> others;
  double outside = 0;
  const double steps = static_cast<double>(timeline.steps.size());
  for (const std::vector<WorkRecord>& records : timeline.ranks) {
    std::set<int> threads;
    for (const WorkRecord& record : records) {
      if (record.thread >= 0) threads.insert(record.thread);
    }
    const double parts = steps * static_cast<double>(threads.size() * timeline.ranks.size());
    for (const WorkRecord& record : records) {
      if (record.thread < 0) continue;
      const double seconds = seconds_between(record.start, record.end) / parts;
      if (record.kind != WorkRecord::Kind::kLayer) {
        others[record.kind] += seconds;
        continue;
      }
      const auto place = places.find(record.layer);
      const std::size_t at = place == places.end() ? layers.size() : place->second;
      if (place == places.end()) {
        places.emplace(record.layer, at);
        layers.emplace_back().name = record.layer;
      }
      ProfileRow& row = layers[at];
      const bool backward = record.phase >= graph::Phase::kBackward;
      (backward ? row.backward_seconds : row.forward_seconds) += seconds;
      add_implementation(row, record.implementation);
    }
    if (threads.empty()) continue;
    const IdleTime idle = idle_time(records, timeline.steps);
    if (idle.waiting > 0) others[WorkRecord::Kind::kWaitForThreads] += idle.waiting / parts;
    outside += idle.outside / parts;
  }
  for (ProfileRow& row : layers) {
    for (const bool backward : {false, true}) {
      const auto found = work.find({row.name, backward});
      if (found == work.end()) continue;
      row.flops += found->second.flops;
      row.bytes += found->second.bytes;
    }
  }
  for (const auto& [kind, seconds] : others) {
    layers.push_back(other_row(spell(kind), seconds));
  }
  layers.push_back(other_row("starting and ending calls", outside));
  return layers;
}

}  // namespace

double LayerProfile::seconds_of_rows() const {
  double sum = 0;
  for (const ProfileRow& row : rows) sum += row.seconds();
  return sum;
}

double LayerProfile::seconds_of_layers() const {
  double sum = 0;
  for (const ProfileRow& row : rows) sum += row.is_layer ? row.seconds() : 0;
  return sum;
}

double LayerProfile::device_seconds() const { return loop_seconds - loop_wait_seconds; }

LayerProfile profile_layers(engine::Engine& engine, const data::Dataset& dataset,
                            const config::Config& config, std::int64_t steps) {
  LayerProfile profile;
  profile.device = engine.describe();
  profile.ranks = engine.count();
  StepRunner runner(engine, dataset, config);
  for (int i = 0; i < kWarmUp; ++i) runner.step();
  profile.launches_in_flight = engine.replica().launches_in_flight();
  if (profile.launches_in_flight > 1) {
    const StepRunner::Loop loop = runner.run_in_flight(steps);
    profile.loop_seconds = loop.seconds;
    profile.loop_wait_seconds = loop.waited;
  }
  runner.take_reads();
  std::vector<backend::WorkRecorder> recorders(engine.count());
  const auto record = [&](bool on) {
    bool can = true;
    for (std::size_t i = 0; i < recorders.size(); ++i) {
      can =
          engine.replica(static_cast<std::int64_t>(i)).record(on ? &recorders[i] : nullptr) && can;
    }
    return can;
  };
  profile.has_layers = record(true);
  ProfileTimeline& timeline = profile.timeline;
  double waited = 0;
  for (std::int64_t i = 0; i < steps; ++i) {
    const ProfileTimeline::Step step = timeline.steps.emplace_back(runner.step());
    std::vector<engine::RankTimes> ranks;
    for (const backend::PhaseTimes& times : engine.times()) {
      ranks.push_back(engine::rank_times(seconds_between(step.start, step.end),
                                         seconds_between(step.start, step.got_batch), times));
    }
    profile.times.add(ranks);
    waited += seconds_between(step.start, step.got_batch);
    profile.step_seconds += seconds_between(step.start, step.end) / static_cast<double>(steps);
    profile.samples = std::max(profile.samples, step.samples);
  }
  record(false);
  // Where a launch blocks, training runs its steps in the same way.
  if (profile.launches_in_flight == 1) {
    profile.loop_seconds = profile.step_seconds;
    profile.loop_wait_seconds = profile.times.spread(StepPhase::kDataWait).median;
  }
  for (backend::WorkRecorder& recorder : recorders) timeline.ranks.push_back(recorder.take());
  timeline.reads = runner.take_reads();
  std::int64_t all = 0;
  for (const ProfileTimeline::Step& step : timeline.steps) all += step.samples;
  const double samples =
      static_cast<double>(all) / static_cast<double>(std::max<std::int64_t>(1, steps));
  profile.rows = make_rows(
      timeline,
      count_work(engine, config, engine::compile_options(config, engine.backend()), samples));
  profile.rows.push_back(other_row("waiting for data", waited / static_cast<double>(steps)));
  return profile;
}

}  // namespace trainer::commands
