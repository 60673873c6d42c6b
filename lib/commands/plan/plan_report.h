// The plan of a run, without training: `trainer plan`.
#pragma once

#include <map>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "cluster/identity.h"
#include "config/config.h"
#include "graph/graph.h"
#include "model/build_model.h"
#include "model/table.h"
#include "train/feature_plan.h"
#include "train/schedule/training_plan.h"

namespace trainer::commands {

// The facts about the data in a plan.
struct PlannedData {
  std::optional<model::SampleSpec> sample;  // the sample that a model can be built for
  std::vector<std::string> classes;
  std::string class_order;                  // see data::Datasets
  std::vector<train::FeatureSplit> splits;  // splits that the data has; empty if unknown
  // The samples of each class, by split; none if that is not known without reading the images.
  std::map<std::string, std::vector<std::int64_t>> class_counts = {};
  std::vector<std::string> warnings = {}, notes = {};
  std::string unknown;  // the reason why the data could not be opened; "" when it could

  // Returns the number of samples of a split; 0 when there are none, or it is unknown.
  std::int64_t size(Split split) const;
};
// Opens the data set without writing to its folders, which may resolve data.normalize. When that
// fails, the sample follows from model.input and the classes of the config, if both are given.
PlannedData plan_data(config::Config& config);

// Returns the model, and nullopt when the sample is unknown.
std::optional<graph::Graph> plan_model(const config::Config& config, const PlannedData& data);

// FLOPs of convolutions and dense layers for one sample, counted by graph::flops() in the graphs
// that are built for a training step.
struct StepWork {
  // The frozen layers at the start, which may be computed once per sample.
  std::int64_t frozen = 0;
  std::int64_t forward = 0;  // the other layers
  // The gradients of trained parameters, and of all values between these and the loss.
  std::int64_t backward = 0;

  std::int64_t total() const { return frozen + forward + backward; }
  StepWork with_features() const { return {0, forward, backward}; }  // features are kept
};

struct RatePoint {
  std::int64_t step = 0;
  double epoch = 0, rate = 0;
};

// The part that is the same on every machine.
struct PlanReport {
  // A value of the config. Where the config leaves it open: the value of the run, and its origin.
  struct Setting {
    std::string key, value, origin;
    bool given = false;  // true if the user gave it
  };
  std::vector<Setting> settings;
  PlannedData data;
  std::vector<model::LayerRow> layers;
  std::int64_t parameters = 0, trainable = 0, flops = 0;  // flops: forward, one sample
  std::int64_t statistics = 0;  // numbers of batch norm that training moves
  // Numbers the optimizer and the weight average keep, in the stage that has most.
  std::int64_t slots = 0;
  std::optional<StepWork> work;  // the work of one sample
  // model.backbone.unfreeze, by entry.
  struct Stage {
    std::string at;
    std::int64_t step = -1;                  // updates before it; -1: unknown
    std::int64_t trainable = 0, layers = 0;  // parameters trained from there on, and their layers
    StepWork work;                           // the work of one sample
    double learning_rate_multiplier = 1;
  };
  std::vector<Stage> stages;
  std::vector<std::string> changes;  // indexed by layer: "; after 3 epochs trained"
  cluster::Identity who;             // this process among the workers
  std::int64_t replicas = 1;         // replicas per worker
  bool evaluates_alone = false;      // parallel.evaluate: false
  std::optional<train::TrainingPlan> steps;
  std::optional<train::ScaledRate>
      rate;                      // the optimizer's rate by the number of replicas; if it is used
  std::vector<RatePoint> rates;  // first, last and at most nine between
  double lowest_rate = 0, highest_rate = 0;
};
// Returns the number of workers whose batches make up one update.
std::int64_t workers_in_step(const cluster::Identity& who);
// The identity of one of `size` processes that train together.
cluster::Identity planned_workers(int size);
PlanReport make_plan(const config::LoadedConfig& loaded, const PlannedData& data,
                     const std::optional<graph::Graph>& model, const cluster::Identity& who = {});

// Return the bytes per step with parameter servers. Pushed are gradients, and moving statistics
// before and after the step; pulled are parameters and statistics.
std::int64_t pushed_bytes(const PlanReport& plan);
std::int64_t pulled_bytes(const PlanReport& plan);

// The listed values of the config: those that were given and what follows from them, or the
// defaults too.
enum class Values { kGiven, kAll };
// The rows for the layers of a large model: one per block of the backbone, or one per layer.
enum class LayerRows { kBlocks, kAll };
void print_plan(const PlanReport& plan, std::ostream& out, Values values = Values::kGiven,
                LayerRows rows = LayerRows::kBlocks, std::optional<int> columns = {});
}  // namespace trainer::commands
