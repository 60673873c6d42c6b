// The convolutions of whole models, in training and evaluation, of a full batch and a last one.
#include <doctest/doctest.h>

#include <array>

#include "backend/cuda/plans/convolution_graph.h"
#include "base/error.h"
#include "compile/compile.h"
#include "cuda/plans/plan_check.h"
#include "support/model.h"

namespace trainer::test {
namespace {

// Plans everything that training and evaluating a model asks for, for a full batch and a last one;
// returns the number of problems of one batch in one precision.
std::size_t plan_model(const std::string& model, const Shape& image) {
  constexpr std::array<std::int64_t, 2> kBatches{64, 7};
  std::size_t count = 0;
  for (const Precision& precision : precisions()) {
    compile::Options options;
    options.activations = precision.type;
    options.update.rule = graph::SgdRule{};
    const graph::Graph forward = build(model, sample(image, 10));
    for (const std::int64_t samples : kBatches) {
      for (const graph::Graph& graph : {compile::training_graph(forward, options),
                                        compile::evaluation_graph(forward, options)}) {
        for (const auto& problem : list_convolutions(graph, samples, precision.tf32)) {
          check_plan(problem, Expect::kTensorCores);
          ++count;
        }
      }
    }
  }
  return count / kBatches.size() / precisions().size();
}

TEST_CASE("models: each convolution of the CNN of the multi-GPU article has a plan") {
  const std::string model = R"({layers: [conv: {filters: 32, kernel_size: 3, activation: relu},
    max_pool: 2, conv: {filters: 64, kernel_size: 3, activation: relu}, max_pool: 2,
    conv: {filters: 64, kernel_size: 3, activation: relu}, flatten,
    dense: {units: 64, activation: relu}, dense: 10]})";
  // Three forward passes and five gradients in training, the same three in evaluation.
  CHECK(plan_model(model, {28, 28, 1}) == 8 + 3);
}

TEST_CASE("models: each convolution of VGG16 has a plan") {
  CHECK(plan_model("{backbone: {name: vgg16}, head: [flatten, dense: 10]}", {224, 224, 3}) > 9 * 3);
}

TEST_CASE("models: each convolution of MobileNetV2 has a plan") {
  CHECK(plan_model("{backbone: {name: mobilenet_v2}, head: [global_average_pool, dense: 10]}",
                   {224, 224, 3}) > 20 * 3);
}

TEST_CASE("models: each convolution of ResNet50 has a plan") {
  CHECK(plan_model("{backbone: {name: resnet50}, head: [global_average_pool, dense: 10]}",
                   {224, 224, 3}) > 20 * 3);
}

// Depthwise convolutions are kernels of ours: what is left are the 1x1 ones, the stem and, of
// squeeze-and-excite, those of one pixel.
TEST_CASE("models: each convolution of backbones of products and normalised pixels has a plan") {
  for (const char* name : {"efficientnet_b0", "mobilenet_v3_large", "convnext_tiny"}) {
    CAPTURE(name);
    const std::string model =
        concat("{backbone: {name: ", name, "}, head: [global_average_pool, dense: 10]}");
    CHECK(plan_model(model, {224, 224, 3}) > 4 * 3);
  }
}

TEST_CASE("plan cache: cuDNN reads the plans that it wrote") {
  const TemporaryFolder folder;
  auto options = planner_options("h100");
  const auto forward = build(
      "{layers: [conv: {filters: 32, kernel_size: 3, activation: relu}, "
      "conv: {filters: 32, kernel_size: 3}, flatten, dense: 10]}",
      sample({32, 32, 16}, 10));
  compile::Options compiled;
  compiled.activations = DType::kBFloat16;
  compiled.update.rule = graph::SgdRule{};
  const auto problems = list_convolutions(compile::training_graph(forward, compiled), 8, false);
  REQUIRE(problems.size() == 5);
  const auto plain = std::make_unique<backend::cuda::ConvolutionPlanner>(options);
  options.cache = folder.path();
  const auto stores = std::make_unique<backend::cuda::ConvolutionPlanner>(options);
  for (const auto& problem : problems) stores->plan(problem);
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 5);
  const auto loads = std::make_unique<backend::cuda::ConvolutionPlanner>(options);
  for (const auto& problem : problems) {
    CAPTURE(to_string(problem));
    CHECK(loads->plan(problem)->describe() == plain->plan(problem)->describe());
    CHECK(loads->plan(problem)->workspace_bytes() == plain->plan(problem)->workspace_bytes());
  }
}

TEST_CASE("devices: properties that are not those of a device are an error") {
  backend::cuda::PlannerOptions options;
  options.device_properties = "{}";
  CHECK_THROWS_AS(std::make_unique<backend::cuda::ConvolutionPlanner>(options), DeviceError);
}

}  // namespace
}  // namespace trainer::test
