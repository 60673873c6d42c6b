// The names and layouts of torchvision's state dicts.
#include "model/files/torchvision.h"

#include <doctest/doctest.h>

#include "model/build_model.h"
#include "model/files/import.h"
#include "support/model.h"

namespace trainer::model {

using checkpoint::Tensor;

TEST_CASE("from_torchvision: VGG16, tensors are renamed and transposed") {
  std::vector<Tensor> file{{"features.2.weight", {2, 1, 1, 3}, {1, 2, 3, 4, 5, 6}},
                           {"features.28.bias", {2}, {1, 2}},
                           {"classifier.3.weight", {2, 3}, {1, 2, 3, 4, 5, 6}}};
  // Two channels of 7x7 pixels, one output: element c * 49 + p goes to p * 2 + c.
  Tensor first{"classifier.0.weight", {1, 98}, {}};
  for (int i = 0; i < 98; ++i) first.values.push_back(static_cast<float>(i));
  file.push_back(first);
  const auto renamed = from_torchvision(config::Backbone::Name::kVgg16, file);
  REQUIRE(renamed.size() == 4);
  CHECK(renamed[0].name == "block1_conv2/kernel");
  CHECK(renamed[0].shape == Shape{1, 3, 1, 2});
  CHECK(renamed[0].values == std::vector<float>{1, 4, 2, 5, 3, 6});
  CHECK(renamed[1].name == "block5_conv3/bias");
  CHECK(renamed[2].name == "fc2/kernel");
  CHECK(renamed[2].values == std::vector<float>{1, 4, 2, 5, 3, 6});
  CHECK(renamed[3].name == "fc1/kernel");
  CHECK(renamed[3].values[0] == 0);
  CHECK(renamed[3].values[1] == 49);
  CHECK(renamed[3].values[2] == 1);
}

namespace {

// A state dict of a ResNet of torchvision, whose stem is there from the start.
struct StateDict {
  std::vector<Tensor> file;

  StateDict() {
    add("conv1.weight", {64, 3, 7, 7});
    norm("bn1", 64);
  }
  void add(const std::string& name, const Shape& shape) {
    file.push_back(
        {name, shape, std::vector<float>(static_cast<std::size_t>(shape.elements()), 0.5f)});
  }
  void norm(const std::string& name, std::int64_t n) {
    for (const char* suffix : {".weight", ".bias", ".running_mean", ".running_var"}) {
      add(name + suffix, {n});
    }
    add(name + ".num_batches_tracked", {});
  }
};

// Checks that `dict` fills all of a ResNet's graph, with `loaded` tensors and none left over.
void check_all_loaded(const graph::Graph& graph, config::Backbone::Name name, const StateDict& dict,
                      std::size_t loaded) {
  const Import import = match_weights(graph, from_torchvision(name, dict.file), {});
  CHECK(import.report.complete());
  CHECK(import.report.extra.empty());
  CHECK(import.report.loaded.size() == loaded);
}

}  // namespace

TEST_CASE("from_torchvision: the state dict of ResNet50, all tensors of Keras's network") {
  const auto config =
      test::config_of("{backbone: {name: resnet50, include_top: true, weights: w}}");
  const auto graph = build_model(config.model, config.data, test::sample({32, 32, 3}, 10), 1);
  StateDict dict;
  const std::int64_t widths[] = {64, 128, 256, 512};
  const int blocks[] = {3, 4, 6, 3};
  std::int64_t in = 64;
  for (int l = 0; l < 4; ++l) {
    const std::int64_t w = widths[l];
    for (int b = 0; b < blocks[l]; ++b) {
      const std::string p = concat("layer", l + 1, '.', b, '.');
      dict.add(p + "conv1.weight", {w, in, 1, 1});
      dict.add(p + "conv2.weight", {w, w, 3, 3});
      dict.add(p + "conv3.weight", {4 * w, w, 1, 1});
      dict.norm(p + "bn1", w);
      dict.norm(p + "bn2", w);
      dict.norm(p + "bn3", 4 * w);
      if (b == 0) dict.add(p + "downsample.0.weight", {4 * w, in, 1, 1});
      if (b == 0) dict.norm(p + "downsample.1", 4 * w);
      in = 4 * w;
    }
  }
  dict.add("fc.weight", {10, 2048});
  dict.add("fc.bias", {10});
  check_all_loaded(graph, config::Backbone::Name::kResNet50, dict, 53 * 2 + 53 * 4 + 2);
}

TEST_CASE("from_torchvision: the state dict of ResNet18, all tensors of the network") {
  const auto config =
      test::config_of("{backbone: {name: resnet18, include_top: true, weights: w}}");
  const auto graph = build_model(config.model, config.data, test::sample({32, 32, 3}, 10), 1);
  StateDict dict;
  for (int l = 0; l < 4; ++l) {
    const std::int64_t w = std::int64_t{64} << l, in = l == 0 ? w : w / 2;
    for (int b = 0; b < 2; ++b) {
      const std::string p = concat("layer", l + 1, '.', b, '.');
      dict.add(p + "conv1.weight", {w, b == 0 ? in : w, 3, 3});
      dict.add(p + "conv2.weight", {w, w, 3, 3});
      dict.norm(p + "bn1", w);
      dict.norm(p + "bn2", w);
      if (b == 0 && l > 0) dict.add(p + "downsample.0.weight", {w, in, 1, 1});
      if (b == 0 && l > 0) dict.norm(p + "downsample.1", w);
    }
  }
  dict.add("fc.weight", {10, 512});
  dict.add("fc.bias", {10});
  check_all_loaded(graph, config::Backbone::Name::kResNet18, dict, 20 + 20 * 4 + 2);
}

}  // namespace trainer::model
