// The part of a plan that depends on the machine.
#pragma once

#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "backend/gpu_model.h"
#include "commands/plan/decode_rate.h"
#include "commands/plan/plan_report.h"
#include "commands/plan/roofline.h"
#include "engine/engine.h"
#include "results/field.h"

namespace trainer::commands {

// Without a model the plan has only the backend, and without the device of the config only what
// this machine lacks.
struct DevicePlan {
  std::string backend;
  std::string machine;             // its shape, of a CPU; "" of other devices
  backend::ChosenSettings chosen;  // the values for keys that the config leaves open
  std::unique_ptr<engine::Engine> engine;
  backend::MemoryReport memory;  // the memory of the stage that takes most
  // The number of that stage: 0 for the start, else of PlanReport::stages, from 1; empty where
  // there is but one.
  std::optional<std::size_t> memory_stage;
  double compile_seconds = 0;
  std::string sums;             // the way to sum the replicas' gradients; "" with one replica
  std::string features;         // the use of the features of frozen layers; "" without such layers
  bool keeps_features = false;  // features of the training split
  // The plan of a GPU that need not be present: its model, the steps of its training program, and
  // their times.
  const backend::GpuModel* gpu = nullptr;
  std::vector<backend::InstructionInfo> steps;
  std::optional<Roofline> roofline;
  // The rate on this machine; nothing where the data is unknown, or an epoch decodes no files.
  std::optional<DecodeRate> decoding;
};
DevicePlan plan_device(const std::optional<graph::Graph>& model, const PlannedData& data,
                       const config::Config& config, const backend::Platform& platform = {},
                       const cluster::Identity& who = {});

void print_device(const PlanReport& plan, const DevicePlan& device, std::ostream& out,
                  std::optional<int> columns = {});
// Prints the plans of convolutions and products and the times of layers of a planned GPU.
void print_gpu(const DevicePlan& device, std::ostream& out);

// What `plan --json` prints. Both must outlive it.
struct PlanEvent {
  const PlanReport* plan = nullptr;
  const DevicePlan* device = nullptr;
};
void fields(results::FieldVisitor& v, PlanEvent& event);

}  // namespace trainer::commands
