#include "engine/frozen_prefix.h"

#include <sstream>

#include "base/error.h"
#include "checkpoint/safetensors.h"
#include "engine/variable_values.h"

namespace trainer::engine {
namespace {

// Returns the names of the persistent values that the nodes read.
std::set<std::string> list_weights(const graph::Graph& graph) {
  std::set<std::string> names;
  for (const graph::Node& node : graph.nodes) {
    for (const graph::ValueId id : node.inputs) {
      if (graph::is_persistent(graph[id].role)) names.insert(graph[id].name);
    }
  }
  return names;
}

std::string program_text(const graph::Graph& graph, const backend::CompileOptions& options) {
  std::ostringstream text;
  text << "convolution " << static_cast<int>(options.convolution) << " batch "
       << options.max_samples << " tf32 " << options.tf32 << " any batch "
       << options.same_for_any_batch << " ordered " << options.reduction.ordered << ' '
       << options.reduction.micro_batches << '\n';
  for (const graph::Node& node : graph.nodes) {
    text << graph::name_of(node.op) << ' ' << graph::describe(node.op);
    for (const graph::ValueId id : node.inputs) text << " %" << id << ' ' << graph[id].name;
    for (const graph::ValueId id : node.outputs) {
      text << " -> %" << id << ' ' << to_string(graph[id].shape) << to_string(graph[id].type);
    }
    text << '\n';
  }
  return text.str();
}

}  // namespace

FrozenPrefix::FrozenPrefix(const compile::FrozenSplit& split, const compile::Options& precision,
                           backend::Backend& backend, backend::Variables& variables,
                           backend::CompileOptions options)
    : backend_(backend), variables_(variables), layer_(split.layer), type_(precision.activations) {
  const graph::Graph graph = compile::feature_graph(split, precision);
  program_ = backend.compile(graph, variables, options);
  weights_ = list_weights(graph);
  text_ = program_text(graph, options);
  const Shape& batched = graph[graph.outputs[0]].shape;
  shape_ = Shape(std::vector(batched.dims().begin() + 1, batched.dims().end()));
  features_ = backend.allocate(static_cast<std::size_t>(shape_.elements() * options.max_samples) *
                               size_of(type_));
}

backend::Span FrozenPrefix::launch(std::int64_t samples, backend::Span images,
                                   std::int64_t all_samples, backend::Stream& stream) {
  backend::Scalars scalars;
  scalars.all_samples = all_samples;
  const backend::Span output = features_.span();
  program_->launch({samples, {&images, 1}, {&output, 1}, nullptr}, scalars, stream);
  return output;
}

std::string FrozenPrefix::key() const {
  const auto tensors = read_all(
      variables_, [this](const graph::Value& value) { return weights_.contains(value.name); });
  return sha256(concat(text_, checkpoint::sha256_of(tensors), backend_.describe()));
}

}  // namespace trainer::engine
