// Searches for the first layer whose output is not finite.
#include "base/error.h"
#include "base/numbers/finite.h"
#include "engine/compile_options.h"
#include "engine/replica.h"

namespace trainer::engine {
namespace {

// Returns the model in training form with the output of every layer as an output of the graph.
graph::Graph probe_graph(const graph::Graph& model) {
  graph::Graph probe = model;
  probe.outputs.clear();
  for (const graph::LayerInfo& layer : model.layers) {
    if (layer.output != graph::kNoValue && model.producer(layer.output) >= 0) {
      probe.outputs.push_back(layer.output);
    }
  }
  return probe;
}

}  // namespace

std::string Replica::find_not_finite(const HostBatch& batch, const backend::Scalars& scalars) {
  for (const checkpoint::Tensor& tensor : tensors()) {
    if (!all_finite(tensor.values)) return "variable " + tensor.name;
  }
  // The search runs on this rank alone and layer by layer, so that the host never holds the outputs
  // of all layers.
  backend::CompileOptions options;
  options.convolution = compile_.convolution;
  options.max_samples = batch.samples;
  backend::Scalars quiet = scalars;
  quiet.apply = false;
  quiet.all_samples = batch.samples;
  const auto [given, labels] = to_device(batch, target_bytes_, calls_.front().inputs, *stream_);
  const backend::Span inputs[] = {program_input(batch, given, prefix_.get(), batch.samples),
                                  labels};
  const graph::Graph probe = probe_graph(training_model(rest_, mixes_samples_));
  const auto program = backend_.compile(probe, *variables_, options);
  for (std::size_t i = 0; i < probe.outputs.size(); ++i) {
    const graph::Value& value = probe[probe.outputs[i]];
    std::vector<float> values(value.shape.elements() * batch.samples);
    const backend::Buffer device = backend_.allocate(values.size() * sizeof(float));
    std::vector<backend::Span> outputs(probe.outputs.size());
    outputs[i] = device.span();
    program->launch({batch.samples, inputs, outputs, nullptr}, quiet, *stream_);
    stream_->download(values.data(), device.span(), device.bytes());
    stream_->synchronize();
    if (all_finite(values)) continue;
    for (const graph::LayerInfo& layer : rest_.layers) {
      if (layer.output == probe.outputs[i]) {
        return concat("layer ", layer.name,
                      layer.loc.known() ? " (" + to_string(layer.loc) + ")" : "");
      }
    }
  }
  return "";
}

}  // namespace trainer::engine
