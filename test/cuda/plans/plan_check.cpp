#include "cuda/plans/plan_check.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <set>
#include <sstream>

#include "backend/cuda/plans/convolution_graph.h"
#include "backend/gpu_model.h"
#include "base/error.h"
#include "support/contains.h"

namespace trainer::test {
namespace {

using backend::cuda::ConvolutionPlanner;
using backend::cuda::ConvolutionProblem;
using Pass = ConvolutionProblem::Pass;

// Channels of a group from which on an engine with tensor cores is expected.
constexpr std::int64_t kTensorCoreChannels = 16;

ConvolutionPlanner& planner_for(const std::string& device) {
  static std::map<std::string, std::unique_ptr<ConvolutionPlanner>> planners;
  auto& planner = planners[device];
  if (planner == nullptr) {
    planner = std::make_unique<backend::cuda::ConvolutionPlanner>(planner_options(device));
  }
  return *planner;
}

std::set<std::string>& planned() {
  static std::set<std::string> all;
  return all;
}

using test::contains;

void check_plan_on(const std::string& device, const ConvolutionProblem& problem, Expect expect) {
  const std::string name = concat(device, ": ", to_string(problem));
  if (!planned().insert(name).second) return;
  std::string text;
  std::int64_t workspace = 0;
  try {
    const auto plan = planner_for(device).plan(problem);
    text = plan->describe();
    workspace = plan->workspace_bytes();
  } catch (const DeviceError& error) {
    FAIL_CHECK(device, ": ", std::string(error.what()));
    return;
  }
  CAPTURE(name);
  CAPTURE(text);
  CHECK(workspace <= backend::cuda::PlannerOptions().workspace_limit);
  CHECK(!contains(text, "then bias"));
  CHECK(contains(text, "then relu") == (problem.relu && !problem.bias));
  const bool full = std::min(problem.c, problem.out) / problem.groups >= kTensorCoreChannels;
  if (problem.type == DType::kFloat32 && !problem.tf32) {
    CHECK(!contains(text, "tensor cores"));
  } else if (expect == Expect::kTensorCores && full) {
    CHECK(contains(text, "tensor cores"));
  }
}

bool is_depthwise(std::int64_t groups, std::int64_t channels) {
  return groups > 1 && groups == channels;
}

// The problem of an image x [batch, h, w, c] and a kernel [kh, kw, c / groups, out].
ConvolutionProblem build_problem(Pass pass, const graph::Value& x, const Shape& image,
                                 const Shape& kernel, const graph::Window& window,
                                 std::int64_t groups) {
  ConvolutionProblem problem;
  problem.pass = pass;
  problem.type = x.type;
  problem.h = image[1];
  problem.w = image[2];
  problem.c = image[3];
  problem.out = kernel[3];
  problem.groups = groups;
  problem.window = window;
  return problem;
}

}  // namespace

std::vector<std::string> plan_devices() {
  const char* list = std::getenv("TRAINER_PLAN_DEVICES");
  std::istringstream in(list == nullptr ? "h100" : list);
  std::vector<std::string> devices;
  for (std::string device; std::getline(in, device, ',');) devices.push_back(device);
  return devices;
}

backend::cuda::PlannerOptions planner_options(const std::string& device) {
  backend::cuda::PlannerOptions options;
  const backend::GpuModel* model = backend::find_gpu_model(device);
  if (model == nullptr) throw ConfigError({}, "TRAINER_PLAN_DEVICES: no GPU " + device);
  options.device_properties = backend::cudnn_properties(*model);
  return options;
}

std::vector<Precision> precisions() {
  return {{DType::kFloat32, false},
          {DType::kFloat32, true},
          {DType::kBFloat16, false},
          {DType::kFloat16, false}};
}

std::vector<ConvolutionProblem> list_convolutions(const graph::Graph& graph, std::int64_t samples,
                                                  bool tf32) {
  std::vector<ConvolutionProblem> problems;
  std::set<std::string> known;
  const auto add = [&](ConvolutionProblem problem) {
    if (is_depthwise(problem.groups, problem.c)) return;
    problem.n = samples;
    problem.tf32 = tf32;
    if (known.insert(to_string(problem)).second) problems.push_back(problem);
  };
  for (const graph::Node& node : graph.nodes) {
    const auto value = [&](std::size_t i) -> const graph::Value& { return graph[node.inputs[i]]; };
    if (const auto* conv = std::get_if<graph::Conv>(&node.op)) {
      auto problem = build_problem(Pass::kForward, value(0), value(0).shape, value(1).shape,
                                   conv->window, conv->groups);
      problem.bias = conv->bias;
      problem.relu = conv->activation.kind == graph::Activation::Kind::kRelu;
      add(problem);
    } else if (const auto* data = std::get_if<graph::ConvBackwardData>(&node.op)) {
      add(build_problem(Pass::kBackwardData, value(0), data->input, value(1).shape, data->window,
                        data->groups));
    } else if (const auto* weights = std::get_if<graph::ConvBackwardWeights>(&node.op)) {
      add(build_problem(Pass::kBackwardWeights, value(0), value(0).shape, weights->kernel,
                        weights->window, weights->groups));
    }
  }
  return problems;
}

void check_plan(const ConvolutionProblem& problem, Expect expect) {
  for (const std::string& device : plan_devices()) check_plan_on(device, problem, expect);
}

}  // namespace trainer::test
