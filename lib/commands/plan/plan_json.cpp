#include <nlohmann/json.hpp>

#include "base/formats/json.h"
#include "commands/plan/device_plan.h"
#include "train/servers/parameter_servers.h"

namespace trainer::commands {
namespace {

using Json = nlohmann::ordered_json;

Json settings_json(const PlanReport& plan) {
  Json settings = Json::array();
  for (const PlanReport::Setting& setting : plan.settings) {
    settings.push_back(
        {{"key", setting.key}, {"value", setting.value}, {"origin", setting.origin}});
  }
  return settings;
}

Json layers_json(const PlanReport& plan) {
  Json layers = Json::array();
  for (const model::LayerRow& row : plan.layers) {
    layers.push_back({{"name", row.name},
                      {"type", row.kind},
                      {"output_shape", row.output_shape},
                      {"parameters", row.parameters},
                      {"trainable", row.trainable_parameters},
                      {"flops", row.flops}});
  }
  return layers;
}

Json rates_json(const PlanReport& plan) {
  Json points = Json::array();
  for (const RatePoint& point : plan.rates) {
    points.push_back(
        {{"step", point.step + 1}, {"epoch", point.epoch}, {"learning_rate", point.rate}});
  }
  if (plan.rates.empty()) return nullptr;
  return {{"first", plan.rates.front().rate},
          {"last", plan.rates.back().rate},
          {"lowest", plan.lowest_rate},
          {"highest", plan.highest_rate},
          {"points", std::move(points)}};
}

Json data_json(const PlannedData& data) {
  if (!data.unknown.empty()) return {{"unknown", data.unknown}};
  Json json;
  for (const Split split : kSplits) json[to_string(split)] = data.size(split);
  json["classes"] = data.classes;
  json["class_order"] = data.class_order;
  json["class_counts"] = data.class_counts;
  json["warnings"] = data.warnings;
  json["notes"] = data.notes;
  json["image"] = data.sample->image.dims();
  json["type"] = to_string(data.sample->image_type);
  return json;
}

void add_steps(const PlanReport& plan, const train::TrainingPlan& steps, Json& json) {
  json["batch_size"] = steps.batch / steps.replicas;
  json["replicas"] = steps.replicas;
  json["workers"] = plan.who.size;
  json["rank"] = plan.who.rank;
  json["reduced_bytes_per_step"] = steps.replicas > 1 ? plan.trainable * 4 : 0;
  if (train::has_parameter_servers(plan.who)) {
    json["pushed_bytes_per_step"] = pushed_bytes(plan);
    json["pulled_bytes_per_step"] = pulled_bytes(plan);
  }
  if (plan.rate) {
    json["lr_scaling"] = {{"rule", plan.rate->scaling},
                          {"optimizer", plan.rate->optimizer},
                          {"effective", plan.rate->effective()}};
  }
  json["accumulate"] = steps.accumulate;
  json["global_batch"] = steps.batch * steps.accumulate;
  json["passes_per_epoch"] = steps.passes_per_epoch;
  json["steps_per_epoch"] = steps.steps_per_epoch;
  json["samples_left_out_per_epoch"] = steps.left_out;
  json["total_steps"] = steps.total_steps;
}

Json range_json(const TimeRange& range) { return {range.fast, range.slow}; }

Json work_json(const backend::InstructionWork& work) {
  return {{"kernels", work.kernels},
          {"library_calls", work.library_calls},
          {"copies", work.copies},
          {"bytes", work.bytes}};
}

Json decoding_json(const DecodeRate& decoding, const Roofline& roofline) {
  if (!decoding.failure.empty()) return {{"failure", decoding.failure}};
  const auto samples = static_cast<double>(roofline.samples);
  return {{"images_per_second_per_core", decoding.images_per_second},
          {"images", decoding.images},
          {"cores",
           {count_cores(decoding, samples / roofline.step.slow),
            count_cores(decoding, samples / roofline.step.fast)}}};
}

Json gpu_json(const DevicePlan& device) {
  Json json = {{"model", device.gpu->name},
               {"name", device.gpu->gpu.name},
               {"memory_bytes", device.gpu->gpu.memory_bytes}};
  json["steps"] = Json::array();
  for (const backend::InstructionInfo& step : device.steps) {
    json["steps"].push_back({{"layer", step.layer},
                             {"implementation", step.implementation},
                             {"workspace", step.workspace}});
    if (step.work) json["steps"].back()["work"] = work_json(*step.work);
  }
  if (!device.roofline) return json;
  const Roofline& roofline = *device.roofline;
  Json layers = Json::array();
  for (const Roofline::Layer& layer : roofline.layers) {
    layers.push_back({{"name", layer.name},
                      {"forward_seconds", range_json(layer.forward)},
                      {"backward_seconds", range_json(layer.backward)},
                      {"flops", layer.flops},
                      {"bytes", layer.bytes},
                      {"kernels", layer.kernels},
                      {"memory_bound", layer.memory_bound}});
  }
  const auto samples = static_cast<double>(roofline.samples);
  json["predicted"] = {
      {"samples", roofline.samples},
      {"layers", std::move(layers)},
      {"update_seconds", range_json(roofline.update)},
      {"step_seconds", range_json(roofline.step)},
      {"images_per_second", {samples / roofline.step.slow, samples / roofline.step.fast}}};
  if (device.decoding) json["predicted"]["decoding"] = decoding_json(*device.decoding, roofline);
  json["predicted"]["kernels_per_step"] = roofline.kernels();
  json["predicted"]["bytes_per_step"] = roofline.work.bytes;
  json["predicted"]["work"] = work_json(roofline.work);
  return json;
}

void add_device(const DevicePlan& device, Json& json) {
  json["backend"] = device.backend;
  if (!device.machine.empty()) json["machine"] = device.machine;
  if (!device.engine) return;
  const backend::MemoryReport& memory = device.memory;
  json["memory"] = {{"variables", memory.variables},
                    {"gradients", memory.gradients},
                    {"activations", memory.activations},
                    {"derived", memory.derived},
                    {"staging", memory.staging},
                    {"tables", memory.tables},
                    {"slots", memory.slots},
                    {"workspace", memory.workspace},
                    {"total", memory.total()}};
  json["compile_seconds"] = device.compile_seconds;
  json["sums"] = device.sums;
  if (device.gpu != nullptr) json["gpu"] = gpu_json(device);
  if (const engine::FrozenPrefix* prefix = device.engine->replica().prefix()) {
    json["frozen"] = {{"layer", prefix->layer()},
                      {"shape", prefix->shape().dims()},
                      {"type", to_string(prefix->type())},
                      {"features", device.features}};
  }
}

}  // namespace

void print_plan_json(const PlanReport& plan, const DevicePlan& device, std::ostream& out) {
  Json json = {{"event", "plan"}};
  json["config"] = settings_json(plan);
  json["layers"] = layers_json(plan);
  for (const PlanReport::Stage& stage : plan.stages) {
    json["unfreeze"].push_back({{"at", stage.at},
                                {"step", stage.step < 0 ? Json() : Json(stage.step)},
                                {"trainable", stage.trainable},
                                {"learning_rate_multiplier", stage.learning_rate_multiplier}});
  }
  json["parameters"] = plan.parameters;
  json["trainable_parameters"] = plan.trainable;
  json["flops"] = plan.flops;
  json["data"] = data_json(plan.data);
  if (plan.steps) add_steps(plan, *plan.steps, json);
  if (plan.steps && plan.work) {
    const auto batch = plan.steps->batch * plan.steps->accumulate;
    json["flops_per_step"] = plan.work->total() * batch;
    if (device.keeps_features) {
      json["flops_per_step_with_features"] = plan.work->with_features().total() * batch;
    }
  }
  json["learning_rate"] = rates_json(plan);
  add_device(device, json);
  write_event(out, json);
}

}  // namespace trainer::commands
