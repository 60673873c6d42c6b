// What a change of the frozen layers keeps.
#include <doctest/doctest.h>

#include <map>

#include "engine/engine.h"
#include "support/backend.h"
#include "support/model.h"

namespace trainer::engine {
namespace {

std::map<std::string, std::vector<float>> read_parameters(const Engine& engine) {
  std::map<std::string, std::vector<float>> parameters;
  for (checkpoint::Tensor& tensor : engine.replica().tensors()) {
    parameters[tensor.name] = std::move(tensor.values);
  }
  return parameters;
}

}  // namespace

TEST_CASE("Engine::change_frozen: weight decay and multipliers stay when other layers are frozen") {
  config::Config config = test::build_config(
      "{layers: [flatten, dense: {units: 4, name: first, bias_initializer: ones}, "
      "dense: {units: 3, name: last, bias_initializer: ones}]}",
      "optimizer: {sgd: {learning_rate: 0.5, weight_decay: 0.5}, "
      "exclude_from_weight_decay: ['*/bias'], learning_rate_multiplier: [{match: first, value: "
      "0.5}]}\n");
  config.train.batch_size = 2;
  graph::Graph model = model::build_model(config.model, config.data, test::sample({4, 4, 1}, 3), 1);
  const auto freeze_first = [&](bool frozen) {
    for (graph::LayerInfo& layer : model.layers) {
      if (layer.name != "first") continue;
      layer.trainable = !frozen;
      for (const graph::ValueId id : layer.parameters) model[id].trainable = !frozen;
    }
  };
  freeze_first(true);
  Engine engine(model, config, test::open_test_backends(device_options(config.parallel, {})),
                Use::kTrain);
  engine.initialise(3);
  // Gradients of no samples are zero, so that an update is the decay alone.
  const std::vector<std::uint8_t> images(2 * 16, 9);
  const std::vector<std::int32_t> labels{0, 2};
  backend::Scalars scalars;
  scalars.learning_rate = 0.5f;
  scalars.loss_scale = 0;
  const auto check_step = [&](float of_first) {
    const auto before = read_parameters(engine);
    ++scalars.update;
    REQUIRE(engine.step({2, images.data(), false, labels.data()}, scalars).finite);
    const auto after = read_parameters(engine);
    for (const auto& [name, factor] : {std::pair<std::string, float>{"first/kernel", of_first},
                                       {"first/bias", 1.0f},
                                       {"last/kernel", 0.75f},
                                       {"last/bias", 1.0f}}) {
      CAPTURE(name);
      const std::vector<float>&was = before.at(name), &is = after.at(name);
      REQUIRE(is.size() == was.size());
      for (std::size_t i = 0; i < is.size(); ++i) {
        CHECK(is[i] == doctest::Approx(factor * was[i]).epsilon(1e-6));
      }
    }
  };
  scalars.update = 0;
  check_step(1.0f);
  freeze_first(false);
  engine.change_frozen(model);
  check_step(0.875f);
  freeze_first(true);
  engine.change_frozen(model);
  check_step(1.0f);
}

}  // namespace trainer::engine
