// The plan of a run, without training: `trainer plan`.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "backend/gpu_model.h"
#include "cluster/identity.h"
#include "commands/plan/decode_rate.h"
#include "commands/plan/roofline.h"
#include "commands/plan/step_work.h"
#include "config/config.h"
#include "engine/replicas.h"
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
// Opens the data set, which may resolve data.normalize. When that fails, the sample follows from
// model.input and the classes of the config, if both are given.
PlannedData plan_data(config::Config& config);

// Returns the model, and nullopt when the sample is unknown.
std::optional<graph::Graph> plan_model(const config::Config& config, const PlannedData& data);

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
// The identity of one of `size` processes that train together.
cluster::Identity planned_workers(int size);
PlanReport make_plan(const config::LoadedConfig& loaded, const PlannedData& data,
                     const std::optional<graph::Graph>& model, const cluster::Identity& who = {});

// The part of a plan that depends on the machine. Without a model it has only the backend, and
// without the device of the config only what this machine lacks.
struct DevicePlan {
  std::string backend;
  std::string machine;             // its shape, of a CPU; "" of other devices
  backend::ChosenSettings chosen;  // the values for keys that the config leaves open
  std::unique_ptr<engine::Replicas> engine;
  backend::MemoryReport memory;  // the memory of the stage that takes most
  std::string memory_of;         // the name of that stage; "" where there is but one
  double compile_seconds = 0;
  std::string sums;             // the way to sum the replicas' gradients; "" with one replica
  std::string features;         // the use of the features of frozen layers; "" without such layers
  bool keeps_features = false;  // features of the training split
  // The plan of a GPU that need not be present: its model, the steps of its training program, and
  // their times.
  const backend::GpuModel* gpu = nullptr;
  std::vector<backend::StepPlan> steps;
  std::optional<Roofline> roofline;
  // The rate on this machine; nothing where the data is unknown, or an epoch decodes no files.
  std::optional<DecodeRate> decoding;
};
// `gpu` is the model that was passed to backend::plan_for_gpu(), or null.
DevicePlan plan_device(const std::optional<graph::Graph>& model, const PlannedData& data,
                       const config::Config& config, const cluster::Identity& who = {},
                       const backend::GpuModel* gpu = nullptr);

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
                LayerRows rows = LayerRows::kBlocks);
void print_device(const PlanReport& plan, const DevicePlan& device, std::ostream& out);
// Prints the plans of convolutions and products and the times of layers of a planned GPU.
void print_gpu(const DevicePlan& device, std::ostream& out);
// Prints both as one line of JSON, {"event":"plan",...}.
void print_plan_json(const PlanReport& plan, const DevicePlan& device, std::ostream& out);

// Throws ConfigError listing the passes unless `pass` is one, "all" or "".
void check_pass(const std::string& pass);
// The training and the evaluation graph after a pass, or after every one for "all".
void print_graphs(const graph::Graph& model, const config::Config& config,
                  const backend::Backend& backend, const std::string& pass, std::ostream& out);
// Prints the programs of the first replica.
void print_programs(engine::Replicas& engine, std::ostream& out);

}  // namespace trainer::commands
