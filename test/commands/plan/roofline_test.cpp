// Predicted times against the paper figures of the design and against hand counts.
#include "commands/plan/roofline.h"

#include <doctest/doctest.h>

#include "compile/compile.h"
#include "support/model.h"

namespace trainer::commands {
namespace {

graph::Graph training_graph(const std::string& model, const Shape& image, std::int64_t classes,
                            DType type, bool recompute = false) {
  compile::Options options;
  options.activations = type;
  options.update.rule = graph::SgdRule{0.9f, false};
  options.recompute = recompute;
  return compile::training_graph(test::build(model, test::sample(image, classes)), options);
}

std::string backbone(const std::string& name, const std::string& head) {
  return "{backbone: {name: " + name + "}, head: [" + head + "]}";
}

Roofline predict(const graph::Graph& training, std::int64_t samples, const std::string& gpu) {
  return roofline(training, nullptr, samples, false, *backend::find_gpu_model(gpu));
}

// Images/second, fast and slow.
std::pair<double, double> speed(const graph::Graph& training, std::int64_t samples,
                                const std::string& gpu) {
  const Roofline all = predict(training, samples, gpu);
  const auto n = static_cast<double>(samples);
  return {n / all.step.fast, n / all.step.slow};
}

// True if a figure is within this share of the paper's.
bool near(double value, double paper, double share) {
  return value > paper * (1 - share) && value < paper * (1 + share);
}

}  // namespace

TEST_CASE("roofline of a dense layer equals that by hand") {
  const graph::Graph graph = training_graph("{layers: [flatten, dense: {units: 1024}]}",
                                            {32, 32, 4}, 1024, DType::kBFloat16);
  const backend::GpuModel& h100 = *backend::find_gpu_model("h100");
  const Roofline all = roofline(graph, nullptr, 65536, false, h100);
  REQUIRE(!all.layers.empty());
  const Roofline::Layer* dense = nullptr;
  for (const Roofline::Layer& layer : all.layers) {
    if (layer.name == "dense") dense = &layer;
  }
  REQUIRE(dense != nullptr);
  // 2 * 65536 * 4096 * 1024 operations forward, as many for the weights; no gradient of the images.
  const double product = 2.0 * 65536 * 4096 * 1024;
  CHECK(dense->flops == doctest::Approx(2 * product));
  const double fast = product / (989.4e12 * 0.708);
  CHECK(dense->forward.fast == doctest::Approx(fast));
  CHECK(dense->forward.slow == doctest::Approx(fast / 0.6));
  // A kernel of 4096 x 1024 and a bias, with momentum: parameter and slot read and written, the
  // gradient read, a copy for the products made.
  const double elements = 4096 * 1024 + 1024;
  CHECK(all.update.fast == doctest::Approx(elements * (3 * 4 + 2 * 4 + 4 + 2) / (3.352e12 * 0.9)));
  CHECK(all.step.fast > all.update.fast + dense->forward.fast + dense->backward.fast);
}

TEST_CASE("roofline: float32 and TF32 have their rates") {
  const graph::Graph graph = training_graph("{layers: [flatten, dense: {units: 1024}]}",
                                            {32, 32, 4}, 1024, DType::kFloat32);
  const backend::GpuModel& a100 = *backend::find_gpu_model("a100");
  const double whole = roofline(graph, nullptr, 65536, false, a100).step.fast;
  const double tf32 = roofline(graph, nullptr, 65536, true, a100).step.fast;
  CHECK(whole / tf32 > 156 * 0.865 / (19.5 * 0.9) * 0.8);
}

TEST_CASE("roofline: ResNet50, VGG16 and MobileNetV2 in bfloat16 have the expected step times") {
  const graph::Graph resnet =
      training_graph(backbone("resnet50", "global_average_pool, dense: 1000"), {224, 224, 3}, 1000,
                     DType::kBFloat16);
  const graph::Graph vgg =
      training_graph(backbone("vgg16",
                              "flatten, dense: {units: 4096, activation: relu}, dropout: 0.5, "
                              "dense: {units: 4096, activation: relu}, dropout: 0.5, dense: 1000"),
                     {224, 224, 3}, 1000, DType::kBFloat16);
  const graph::Graph mobile =
      training_graph(backbone("mobilenet_v2", "global_average_pool, dense: 1000"), {224, 224, 3},
                     1000, DType::kBFloat16);
  struct Row {
    const graph::Graph* graph;
    std::int64_t batch;
    const char* gpu;
    double fast, slow;
  };
  for (const Row& row :
       {Row{&resnet, 256, "a100", 5.0e3, 4.0e3}, Row{&resnet, 256, "h100", 9.3e3, 8.1e3},
        Row{&resnet, 256, "h200", 12.6e3, 10.5e3}, Row{&vgg, 128, "a100", 2.6e3, 1.6e3},
        Row{&vgg, 128, "h100", 6.3e3, 4.1e3}, Row{&vgg, 128, "h200", 7.4e3, 4.7e3},
        Row{&mobile, 512, "a100", 10.5e3, 10.5e3}, Row{&mobile, 512, "h100", 17.3e3, 17.3e3},
        Row{&mobile, 512, "h200", 24.7e3, 24.7e3}}) {
    const auto [fast, slow] = speed(*row.graph, row.batch, row.gpu);
    CAPTURE(row.gpu);
    CAPTURE(row.batch);
    CAPTURE(fast);
    CAPTURE(slow);
    // ResNet50's batch norms are passes of their own here, which the design's figures fuse.
    const double share = row.graph == &resnet ? 0.4 : 0.25;
    CHECK(near(fast, row.fast, share));
    CHECK(near(slow, row.slow, share));
  }
  // MobileNetV2 is limited by memory nearly all the time.
  const Roofline all = predict(mobile, 512, "h100");
  double bound = 0;
  for (const Roofline::Layer& layer : all.layers) {
    bound += layer.memory_bound * (layer.forward.fast + layer.backward.fast);
  }
  CHECK(bound / all.step.fast > 0.9);
}

TEST_CASE("roofline: recompute makes a step longer") {
  const std::string model = backbone("vgg16", "flatten, dense: 10");
  const double kept =
      predict(training_graph(model, {64, 64, 3}, 10, DType::kBFloat16), 64, "h100").step.fast;
  const double again =
      predict(training_graph(model, {64, 64, 3}, 10, DType::kBFloat16, true), 64, "h100").step.fast;
  CHECK(again > 1.1 * kept);
  CHECK(again < 1.5 * kept);
}

TEST_CASE("roofline: steps of a planned device equal those by hand") {
  using graph::Phase;
  const auto make_step = [](const char* layer, Phase phase, DType type, double flops,
                            const backend::InstructionWork& work) {
    return backend::InstructionInfo{layer, "", 0, phase, type, flops, work};
  };
  // A product that arithmetic limits, a pass that memory limits, and launches.
  const std::vector<backend::InstructionInfo> steps = {
      make_step("conv", Phase::kForward, DType::kBFloat16, 1e12, {0, 1, 0, 1e6}),
      make_step("norm", Phase::kForward, DType::kBFloat16, 1e6, {3, 0, 0, 3e9}),
      make_step("norm", Phase::kBackward, DType::kBFloat16, 0, {2, 0, 1, 1e3}),
      make_step("update", Phase::kUpdate, DType::kFloat32, 0, {4, 0, 2, 6e9})};
  const backend::GpuModel& h100 = *backend::find_gpu_model("h100");
  const Roofline all = roofline(steps, 64, false, h100);
  REQUIRE(all.layers.size() == 2);
  const Roofline::Layer &conv = all.layers[0], &norm = all.layers[1];
  CHECK(conv.forward.fast == doctest::Approx(1e12 / (989.4e12 * 0.708)));
  CHECK(conv.forward.slow == doctest::Approx(conv.forward.fast / 0.6));
  CHECK(conv.memory_bound == 0);
  CHECK(conv.kernels == 1);
  const double bandwidth = 3.352e12 * 0.9;
  CHECK(norm.forward.fast == doctest::Approx(3e9 / bandwidth));
  CHECK(norm.backward.fast == doctest::Approx(3 * 2e-6));
  CHECK(norm.kernels == 5);
  CHECK(norm.bytes == doctest::Approx(3e9 + 1e3));
  CHECK(all.update.fast == doctest::Approx(6e9 / bandwidth));
  CHECK(all.step.fast == doctest::Approx(conv.forward.fast + norm.forward.fast +
                                         norm.backward.fast + all.update.fast));
  REQUIRE(all.work);
  CHECK(all.kernels() == 10);
  CHECK(all.work->library_calls == 1);
  CHECK(all.work->copies == 3);
  CHECK(all.work->bytes == doctest::Approx(9e9 + 1e6 + 1e3));
  // Without TF32 the tensor cores do not take float32.
  std::vector<backend::InstructionInfo> whole = steps;
  whole[0].type = DType::kFloat32;
  CHECK(roofline(whole, 64, false, h100).layers[0].forward.fast ==
        doctest::Approx(1e12 / (66.9e12 * 0.9)));
}

}  // namespace trainer::commands
