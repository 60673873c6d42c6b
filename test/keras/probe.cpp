// What a config's model computes on given images, for comparison with Keras: used by
// compare_backbone.py.
//
//   trainer_probe CONFIG IN.safetensors OUT.safetensors
//
// IN has images [n, height, width, channels] as the first layer reads them, targets [n, outputs]
// and batch [1], the number of images of the training step. OUT has the outputs in evaluation of
// all images, the gradient of every parameter for the step ("<parameter>/gradient") and the
// statistics after it. The config's loss is mean_squared_error and its optimizer sgd with momentum:
// the momentum after one step is -rate * gradient.
#include <iostream>
#include <map>

#include "base/error.h"
#include "checkpoint/safetensors.h"
#include "engine/engine.h"
#include "model/build_model.h"
#include "model/files/import.h"
#include "optim/optim.h"

namespace trainer {
namespace {

using checkpoint::Tensor;

std::vector<Tensor> gradients(const engine::Engine& engine, float rate) {
  std::vector<Tensor> result;
  const std::string suffix = "/momentum";
  std::map<std::string, graph::Role> roles;
  for (const graph::Value& value : engine.replica().variable_values())
    roles[value.name] = value.role;
  for (Tensor& tensor : engine.replica().tensors()) {
    if (roles[tensor.name] == graph::Role::kStatistic) result.push_back(tensor);
    if (!tensor.name.ends_with(suffix)) continue;
    tensor.name.resize(tensor.name.size() - suffix.size());
    tensor.name += "/gradient";
    for (float& value : tensor.values) value /= -rate;
    result.push_back(std::move(tensor));
  }
  return result;
}

int run(const std::string& config_path, const Path& in, const Path& out) {
  const config::Config config = config::load_config(config_path, {}, {}).config;
  std::map<std::string, Tensor> given;
  for (Tensor& tensor : checkpoint::read_safetensors(in).tensors) given[tensor.name] = tensor;
  const Tensor& images = given.at("images");
  const Tensor& targets = given.at("targets");
  const auto batch = static_cast<std::int64_t>(given.at("batch").values.at(0));

  model::SampleSpec sample;
  sample.image = {images.shape[1], images.shape[2], images.shape[3]};
  sample.image_type = DType::kFloat32;
  sample.label_is_index = false;
  sample.classes = targets.shape[1];
  const graph::Graph graph = model::build_model(config.model, config.data, sample, config.seed);
  engine::Engine engine(graph, config, engine::open_backends(config, {}), engine::Use::kTrain);
  engine.initialise(config.seed);
  const model::Import import = model::import_weights(graph, config.model);
  engine.write(import.tensors);
  if (!import.report.path.empty()) std::cout << import.report.text() << '\n';

  const std::int64_t count = images.shape[0], width = targets.shape[1];
  Tensor outputs{"outputs", {count, width}, {}};
  for (std::int64_t first = 0; first < count; first += engine.evaluation_batch()) {
    const std::int64_t samples = std::min(engine.evaluation_batch(), count - first);
    engine.evaluate({samples, images.values.data() + first * sample.image.elements(), false,
                     targets.values.data() + first * width});
    const auto logits = engine.logits().first(static_cast<std::size_t>(samples * width));
    outputs.values.insert(outputs.values.end(), logits.begin(), logits.end());
  }

  backend::Scalars scalars;
  scalars.learning_rate = static_cast<float>(optim::update_spec(config.optimizer).learning_rate);
  scalars.loss_scale = 1.0 / static_cast<double>(batch);
  engine.step({batch, images.values.data(), false, targets.values.data()}, scalars);
  std::vector<Tensor> result = gradients(engine, scalars.learning_rate);
  result.push_back(std::move(outputs));
  checkpoint::write_safetensors(out, result, {});
  return kExitOk;
}

}  // namespace
}  // namespace trainer

int main(int argc, char** argv) {
  if (argc != 4) {
    std::cerr << "usage: trainer_probe CONFIG IN.safetensors OUT.safetensors\n";
    return trainer::kExitConfig;
  }
  try {
    return trainer::run(argv[1], argv[2], argv[3]);
  } catch (const trainer::Error& error) {
    std::cerr << error.what() << '\n';
    return error.code();
  }
}
