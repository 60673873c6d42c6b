#include <utility>

#include "commands/plan/device_plan.h"
#include "train/servers/parameter_servers.h"

// The results of other folders that are parts of a plan.
namespace trainer::results {

void fields(FieldVisitor& v, model::LayerRow& row) {
  v("name", row.name, "The layer.");
  v("type", row.kind, "Its type.");
  v("output_shape", row.output_shape, "Shape of its output.");
  v("parameters", row.parameters, "Its parameters.");
  v("trainable", row.trainable_parameters, "Those that are trained at the start.");
  v("flops", row.flops, {"FLOP", 0}, "Forward operations of a sample.");
}

void fields(FieldVisitor& v, backend::InstructionWork& work) {
  v("kernels", work.kernels, "Kernels of the backend itself.");
  v("library_calls", work.library_calls, "Calls of libraries, each of one kernel or more.");
  v("copies", work.copies, "Copies within the memory of the device, and fills.");
  v("bytes", work.bytes, kBytes, "Memory traffic.");
}

void fields(FieldVisitor& v, backend::InstructionInfo& step) {
  v("layer", step.layer, "The layer.");
  v("implementation", step.implementation, "How it is computed.");
  v("workspace", step.workspace, kBytes, "Memory beside its operands.");
  v.when_present("work", step.work, "What it runs on the device.");
}

void fields(FieldVisitor& v, backend::MemoryReport& memory) {
  v("variables", memory.variables, kBytes, "Parameters, statistics, slots and averages.");
  v("gradients", memory.gradients, kBytes, "Gradients and the buffers of their sums.");
  v("activations", memory.activations, kBytes, "Values between layers.");
  v("derived", memory.derived, kBytes, "Reordered and folded weights.");
  v("staging", memory.staging, kBytes, "Copies of batches and results.");
  v("tables", memory.tables, kBytes, "Constants, scalars and tables of the programs.");
  v("slots", memory.slots, kBytes, "Part of the variables: slots and averages.");
  v("workspace", memory.workspace, kBytes, "Part of the activations: largest workspace.");
  v.derived("total", memory.total(), kBytes, "All together.");
}

void fields(FieldVisitor& v, train::ScaledRate& rate) {
  v("rule", rate.scaling, "parallel.lr_scaling.");
  v("optimizer", rate.optimizer, "The rate in the config.");
  v.derived("effective", rate.effective(), "The rate by the number of replicas.");
}

}  // namespace trainer::results

namespace trainer::commands {

using results::FieldVisitor;
using results::kBytes;
using results::kNoUnit;
using results::kSeconds;
using results::kSteps;

namespace {

template <class T>
std::optional<T> only_if(bool is_set, T value) {
  return is_set ? std::optional(std::move(value)) : std::nullopt;
}

std::vector<double> to_list(const TimeRange& range) { return {range.fast, range.slow}; }

}  // namespace

void fields(FieldVisitor& v, PlanReport::Setting& setting) {
  v("key", setting.key, "The key of the config.");
  v("value", setting.value, "The value of the run.");
  v("origin", setting.origin, "Where the value comes from.");
}

void fields(FieldVisitor& v, PlanReport::Stage& stage) {
  v("at", stage.at, "The entry of model.backbone.unfreeze.");
  v.derived("step", only_if(stage.step >= 0, stage.step), kSteps,
            "Steps before it; null if unknown.");
  v("trainable", stage.trainable, "Parameters that are trained from there on.");
  v("learning_rate_multiplier", stage.learning_rate_multiplier, "Factor of the learning rate.");
}

void fields(FieldVisitor& v, PlannedData& data) {
  const bool is_known = data.unknown.empty();
  const model::SampleSpec sample = data.sample.value_or(model::SampleSpec{});
  v.when_present("unknown", data.unknown, "Why the data cannot be opened.");
  for (const Split split : kSplits) {
    v.when_present(to_string(split).c_str(), only_if(is_known, data.size(split)), results::kSamples,
                   "Samples of the split.");
  }
  v.when_present("classes", only_if(is_known, data.classes), "The classes or labels.");
  v.when_present("class_order", only_if(is_known, data.class_order), "What decides their order.");
  v.when_present("class_counts", only_if(is_known, data.class_counts), results::kSamples,
                 "Samples of each class, by split.");
  v.when_present("warnings", only_if(is_known, data.warnings), "Warnings about the data.");
  v.when_present("notes", only_if(is_known, data.notes), "Notes on the data.");
  v.when_present("image", only_if(is_known, sample.image.dims()), "Shape of an image.");
  v.when_present("type", only_if(is_known, std::string(to_string(sample.image_type))),
                 "Type of its numbers.");
}

void fields(FieldVisitor& v, RatePoint& point) {
  v.derived("step", point.step + 1, kSteps, "The step, from 1.");
  v("epoch", point.epoch, "epochs", "Epochs done before it.");
  v("learning_rate", point.rate, "Its learning rate.");
}

struct PlannedRates {
  double first = 0, last = 0, lowest = 0, highest = 0;
  std::vector<RatePoint> points;
};

void fields(FieldVisitor& v, PlannedRates& rates) {
  v("first", rates.first, "That of the first step.");
  v("last", rates.last, "That of the last step.");
  v("lowest", rates.lowest, "The lowest of all steps.");
  v("highest", rates.highest, "The highest of all steps.");
  v("points", rates.points, "Some steps, the first and the last among them.");
}

struct PlannedDecoding {
  DecodeRate rate;
  std::vector<std::int64_t> cores;
};

void fields(FieldVisitor& v, PlannedDecoding& decoding) {
  DecodeRate& rate = decoding.rate;
  const bool is_measured = rate.failure.empty();
  v.when_present("failure", rate.failure, "Why there is no rate.");
  v.when_present("images_per_second_per_core", only_if(is_measured, rate.images_per_second),
                 {"images/s", 0}, "The rate at which this machine reads training images.");
  v.when_present("images", only_if(is_measured, rate.images), "Images that were measured.");
  v.when_present("cores", only_if(is_measured, decoding.cores),
                 "Cores for the slowest and the fastest step.");
}

void fields(FieldVisitor& v, Roofline::Layer& layer) {
  v("name", layer.name, "The layer.");
  v.derived("forward_seconds", to_list(layer.forward), kSeconds, "Least and largest time.");
  v.derived("backward_seconds", to_list(layer.backward), kSeconds, "Least and largest time.");
  v("flops", layer.flops, {"FLOP", 0}, "Operations of both.");
  v("bytes", layer.bytes, kBytes, "Memory traffic of both.");
  v("kernels", layer.kernels, "Kernels of both.");
  v("memory_bound", layer.memory_bound, results::kShare, "Time that memory limits.");
}

struct PredictedStep {
  Roofline roofline;
  std::optional<PlannedDecoding> decoding;
};

void fields(FieldVisitor& v, PredictedStep& predicted) {
  Roofline& roofline = predicted.roofline;
  const auto samples = static_cast<double>(roofline.samples);
  v("samples", roofline.samples, results::kSamples, "Samples of a step.");
  v("layers", roofline.layers, "The times of the layers.");
  v.derived("update_seconds", to_list(roofline.update), kSeconds, "Least and largest time.");
  v.derived("step_seconds", to_list(roofline.step), kSeconds, "Least and largest time.");
  v.derived("images_per_second",
            std::vector{samples / roofline.step.slow, samples / roofline.step.fast},
            {"images/s", 0}, "Least and largest throughput.");
  v.when_present("decoding", predicted.decoding, "How fast this machine reads the images.");
  v.derived("kernels_per_step", roofline.kernels(), "Kernels of a step.");
  v.derived("bytes_per_step", roofline.work.bytes, kBytes, "Memory traffic of a step.");
  v("work", roofline.work, "What a step runs on the device.");
}

struct PlannedGpu {
  std::string model, name;
  std::int64_t memory_bytes = 0;
  std::vector<backend::InstructionInfo> steps;
  std::optional<PredictedStep> predicted;
};

void fields(FieldVisitor& v, PlannedGpu& gpu) {
  v("model", gpu.model, "The name in --device.");
  v("name", gpu.name, "The name of the GPU.");
  v("memory_bytes", gpu.memory_bytes, kBytes, "Its memory.");
  v("steps", gpu.steps, "The instructions of a training step.");
  v.when_present("predicted", gpu.predicted, "The time of a step.");
}

struct PlannedFeatures {
  std::string layer;
  std::vector<std::int64_t> shape;
  std::string type, features;
};

void fields(FieldVisitor& v, PlannedFeatures& frozen) {
  v("layer", frozen.layer, "The last frozen layer.");
  v("shape", frozen.shape, "Shape of its output.");
  v("type", frozen.type, "Type of its output.");
  v("features", frozen.features, "What becomes of its outputs.");
}

namespace {

std::optional<PlannedRates> find_rates(const PlanReport& plan) {
  if (plan.rates.empty()) return std::nullopt;
  return PlannedRates{plan.rates.front().rate, plan.rates.back().rate, plan.lowest_rate,
                      plan.highest_rate, plan.rates};
}

std::optional<PlannedGpu> find_gpu(const DevicePlan& device) {
  if (device.gpu == nullptr || !device.engine) return std::nullopt;
  const backend::Gpu& gpu = device.gpu->gpu;
  PlannedGpu planned{device.gpu->name, gpu.name, gpu.memory_bytes, device.steps, {}};
  if (!device.roofline) return planned;
  planned.predicted.emplace(PredictedStep{*device.roofline, {}});
  if (!device.decoding) return planned;
  PlannedDecoding& decoding =
      planned.predicted->decoding.emplace(PlannedDecoding{*device.decoding, {}});
  if (!decoding.rate.failure.empty()) return planned;
  const auto samples = static_cast<double>(device.roofline->samples);
  for (const double seconds : {device.roofline->step.slow, device.roofline->step.fast}) {
    decoding.cores.push_back(count_cores(decoding.rate, samples / seconds));
  }
  return planned;
}

std::optional<PlannedFeatures> find_features(const DevicePlan& device) {
  const engine::FrozenPrefix* prefix = device.engine ? device.engine->replica().prefix() : nullptr;
  if (prefix == nullptr) return std::nullopt;
  return PlannedFeatures{prefix->layer(), prefix->shape().dims(),
                         std::string(to_string(prefix->type())), device.features};
}

void list_steps(FieldVisitor& v, const PlanReport& plan) {
  const bool is_known = plan.steps.has_value();
  const train::TrainingPlan steps = plan.steps.value_or(train::TrainingPlan{});
  const bool has_servers = is_known && train::has_parameter_servers(plan.who);
  const auto add = [&](const char* key, std::int64_t value, results::Unit unit,
                       const char* meaning) {
    v.when_present(key, only_if(is_known, value), unit, meaning);
  };
  add("batch_size", steps.batch / steps.replicas, results::kSamples,
      "Samples of a batch per replica.");
  add("replicas", steps.replicas, kNoUnit, "Replicas of all workers.");
  add("workers", plan.who.size, kNoUnit, "Processes that train together.");
  add("rank", plan.who.rank, kNoUnit, "The number of this process.");
  add("reduced_bytes_per_step", steps.replicas > 1 ? plan.trainable * 4 : 0, kBytes,
      "Gradients that replicas sum.");
  v.when_present("pushed_bytes_per_step", only_if(has_servers, pushed_bytes(plan)), kBytes,
                 "What a worker sends to parameter servers.");
  v.when_present("pulled_bytes_per_step", only_if(has_servers, pulled_bytes(plan)), kBytes,
                 "What it receives from them.");
  std::optional<train::ScaledRate> rate = is_known ? plan.rate : std::nullopt;
  v.when_present("lr_scaling", rate, "How the learning rate follows the replicas.");
  add("accumulate", steps.accumulate, kNoUnit, "Batches of a step.");
  add("global_batch", steps.batch * steps.accumulate, results::kSamples, "Samples of a step.");
  add("passes_per_epoch", steps.passes_per_epoch, kNoUnit, "Uses of a sample in an epoch.");
  add("steps_per_epoch", steps.steps_per_epoch, kSteps, "Steps of an epoch.");
  add("samples_left_out_per_epoch", steps.left_out, results::kSamples,
      "That data.drop_remainder leaves out.");
  add("total_steps", steps.total_steps, kSteps, "Steps of the run.");
}

void list_device(FieldVisitor& v, const DevicePlan& device) {
  const bool has_engine = device.engine != nullptr;
  v.derived("backend", device.backend, "The backend.");
  v.when_present("machine", only_if(!device.machine.empty(), device.machine),
                 "The shape of a CPU.");
  v.when_present("memory", only_if(has_engine, device.memory), "Memory of the model.");
  v.when_present("compile_seconds", only_if(has_engine, device.compile_seconds), kSeconds,
                 "Time of compiling.");
  v.when_present("sums", only_if(has_engine, device.sums), "How gradients are summed.");
  v.when_present("gpu", find_gpu(device), "The plan of the GPU of --device.");
  v.when_present("frozen", find_features(device), "The frozen layers at the start.");
}

}  // namespace

void fields(FieldVisitor& v, PlanEvent& event) {
  static const PlanReport kNoPlan;
  static const DevicePlan kNoDevice;
  const PlanReport& plan = event.plan != nullptr ? *event.plan : kNoPlan;
  const DevicePlan& device = event.device != nullptr ? *event.device : kNoDevice;
  v.event("plan");
  v.derived("config", plan.settings, "The values of the config.");
  v.derived("layers", plan.layers, "The layers.");
  v.when_present("unfreeze", only_if(!plan.stages.empty(), plan.stages),
                 "The entries of model.backbone.unfreeze.");
  v.derived("parameters", plan.parameters, "Parameters of the model.");
  v.derived("trainable_parameters", plan.trainable, "Those that are trained at the start.");
  v.derived("flops", plan.flops, {"FLOP", 0}, "Forward operations of a sample.");
  v.derived("data", plan.data, "The data.");
  list_steps(v, plan);
  const bool has_work = plan.steps && plan.work;
  const StepWork work = plan.work.value_or(StepWork{});
  const std::int64_t batch = has_work ? plan.steps->batch * plan.steps->accumulate : 0;
  v.when_present("flops_per_step", only_if(has_work, work.total() * batch), {"FLOP", 0},
                 "Operations of a step.");
  v.when_present("flops_per_step_with_features",
                 only_if(has_work && device.keeps_features, work.with_features().total() * batch),
                 {"FLOP", 0}, "Operations of a step that reads features of frozen layers.");
  v.derived("learning_rate", find_rates(plan), "The schedule; null if the steps are unknown.");
  list_device(v, device);
}

}  // namespace trainer::commands
