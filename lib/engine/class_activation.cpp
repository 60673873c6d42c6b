#include "engine/class_activation.h"

#include <algorithm>
#include <array>
#include <span>

#include "engine/compile_options.h"
#include "engine/variable_values.h"
#include "model/features.h"
#include "optim/optim.h"

namespace trainer::engine {
namespace {

// Returns the options of the config for float32.
compile::Options make_float_options(config::Config config, const backend::Backend& backend) {
  config.train.precision = config::Precision::kFloat32;
  return compile_options(config, backend);
}

}  // namespace

ClassActivation::ClassActivation(const graph::Graph& model, const config::Config& config,
                                 const graph::LayerInfo& layer, backend::Backend& backend)
    : single_logit_(config.model.loss != LossKind::kSoftmaxCrossEntropy &&
                    model[model.outputs[0]].shape[1] == 1),
      stream_(backend.make_stream()) {
  const graph::Graph graph =
      compile::logit_gradient_graph(optim::apply_parameter_options(model, config.optimizer),
                                    make_float_options(config, backend), layer.output);
  variables_ = backend.allocate(graph);
  program_ = backend.compile(graph, *variables_, {});
  const auto elements = [&](graph::ValueId id) { return graph[id].shape.elements(); };
  const graph::ValueId image = graph.inputs[0];
  image_bytes_ = elements(image) * size_of(graph[image].type);
  const Shape& features = graph[graph.outputs[1]].shape;
  channels_ = features[features.rank() - 1];
  if (const auto grid = model::find_token_grid(model, layer.output)) {
    height_ = grid->height, width_ = grid->width, before_ = grid->before;
  } else {
    height_ = features[1], width_ = features[2];
  }
  weights_.resize(elements(graph.inputs[1]));
  logits_.resize(elements(graph.outputs[0]));
  activation_.resize(elements(graph.outputs[1]));
  gradient_.resize(elements(graph.outputs[2]));
  if (backend.reads_host_memory()) return;
  device_.push_back(backend.allocate(image_bytes_));
  for (const auto* values : {&weights_, &logits_, &activation_, &gradient_}) {
    device_.push_back(backend.allocate(values->size() * sizeof(float)));
  }
}

void ClassActivation::load(const checkpoint::TensorFile& file, const std::string& path) {
  load_all(*variables_, file, path, UnknownTensors::kIgnored);
}

PositionMap ClassActivation::compute(const void* image, std::int64_t label) {
  std::ranges::fill(weights_, 0.0f);
  if (single_logit_) {
    weights_[0] = label == 0 ? -1.0f : 1.0f;
  } else {
    weights_.at(label) = 1;
  }
  std::array<backend::Span, 5> spans;
  spans[0] = {static_cast<std::byte*>(const_cast<void*>(image)), image_bytes_};
  std::size_t next = 1;
  for (std::vector<float>* values : {&weights_, &logits_, &activation_, &gradient_}) {
    const std::span<float> all(*values);
    spans[next++] = {reinterpret_cast<std::byte*>(all.data()), all.size_bytes()};
  }
  const std::array<backend::Span, 5> host = spans;
  for (std::size_t i = 0; i < device_.size(); ++i) {
    spans[i] = device_[i].span();
    if (i < 2) stream_->upload(spans[i], host[i].address, host[i].bytes);
  }
  const std::span<const backend::Span> all(spans);
  program_->launch({1, all.first(2), all.subspan(2), nullptr}, {}, *stream_);
  for (std::size_t i = 2; i < device_.size(); ++i) {
    stream_->download(host[i].address, spans[i], host[i].bytes);
  }
  stream_->synchronize();

  PositionMap map{height_, width_, {}};
  const std::size_t channels = channels_, first = before_ * channels;
  const std::size_t positions = map.height * map.width;
  std::vector<double> channel_weights(channels);
  for (std::size_t i = first; i < gradient_.size(); ++i) {
    channel_weights[i % channels] += static_cast<double>(gradient_[i]);
  }
  map.values.resize(positions);
  for (std::size_t p = 0; p < positions; ++p) {
    double sum = 0;
    for (std::size_t c = 0; c < channels; ++c) {
      sum += channel_weights[c] * static_cast<double>(activation_[first + p * channels + c]);
    }
    map.values[p] = static_cast<float>(std::max(sum / static_cast<double>(positions), 0.0));
  }
  return map;
}

}  // namespace trainer::engine
