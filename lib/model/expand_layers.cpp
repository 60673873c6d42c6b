// Expands groups of layers to the layers of the model, in the order in which Keras would make them.
#include "model/expand_layers.h"

#include <map>
#include <utility>

#include "model/names.h"

namespace trainer::model {
namespace {

using config::Layer;

// The input of a layer: the name of a layer, or kPlace and an index of the list, because layers may
// not have a name yet.
using Source = std::string;
constexpr char kPlace = '\x01';

Source source_at(std::size_t place) { return kPlace + std::to_string(place); }

// The names of one round of a repeated group.
struct Scope {
  Scope* outer = nullptr;
  std::string suffix;                     // appended to all names inside, e.g. "_2"
  std::map<std::string, Source> outputs;  // of named groups, by the name in the config

  Source find(const std::string& name) const {
    const auto found = outputs.find(name);
    if (found != outputs.end()) return found->second;
    return outer == nullptr ? name : outer->find(name);
  }
  void add(const std::string& name, const Source& source) {
    if (name.empty()) return;
    outputs[name] = source;
    if (outer != nullptr) {
      outer->add(name + suffix.substr(outer->suffix.size()), source);
    }
  }
  std::string full_name(const std::string& name) const {
    return name.empty() ? name : name + suffix;
  }
};

class Expander {
 public:
  // Adds the layers, the first of which takes `input`; returns the output of the last.
  Source add_list(const std::vector<Layer>& layers, Source input, Scope& scope) {
    for (const Layer& layer : layers) {
      input =
          std::visit([&](const auto& kind) { return add(kind, layer, input, scope); }, layer.kind);
      scope.add(layer.name, input);
    }
    return input;
  }

  std::vector<Layer> take() { return std::move(layers_); }

 private:
  template <class Kind>
  Source add(const Kind& kind, const Layer& layer, const Source& input, Scope& scope) {
    return push(kind, layer, "", resolve_inputs(layer, input, scope), scope);
  }

  Source add(const config::ConvLayer& conv, const Layer& layer, const Source& input, Scope& scope) {
    if (!conv.batch_norm) return push(conv, layer, "", resolve_inputs(layer, input, scope), scope);
    config::ConvLayer plain = conv;
    plain.batch_norm.reset();
    plain.activation = config::Activation::kLinear;
    const Source y = push(plain, layer, "", resolve_inputs(layer, input, scope), scope);
    const Source normalized = push(*conv.batch_norm, layer, "_bn", {y}, scope);
    return add_activation(conv.activation, layer, normalized, scope);
  }

  Source add(const config::RepeatLayer& repeat, const Layer& layer, const Source& input,
             Scope& scope) {
    Source output = first(resolve_inputs(layer, input, scope));
    for (std::int64_t round = 1; round <= repeat.count_rounds(); ++round) {
      Scope inner{&scope, concat(scope.suffix, "_", round), {}};
      output = add_list(repeat.find_layers(round), output, inner);
    }
    return output;
  }

  Source add(const config::ResidualLayer& residual, const Layer& layer, const Source& input,
             Scope& scope) {
    const Source start = first(resolve_inputs(layer, input, scope));
    const Source main = add_list(residual.layers, start, scope);
    const Source shortcut = add_list(residual.shortcut, start, scope);
    const Source sum = push(config::AddLayer{}, layer, "", {main, shortcut}, scope);
    return add_activation(residual.activation, layer, sum, scope);
  }

  Source add_activation(config::Activation function, const Layer& layer, const Source& input,
                        Scope& scope) {
    if (function == config::Activation::kLinear) return input;
    return push(config::ActivationLayer{function, {}}, layer, "_activation", {input}, scope);
  }

  static std::vector<Source> resolve_inputs(const Layer& layer, const Source& input,
                                            const Scope& scope) {
    if (layer.inputs.empty()) return {input};
    std::vector<Source> inputs;
    for (const std::string& name : layer.inputs) inputs.push_back(scope.find(name));
    return inputs;
  }

  static Source first(const std::vector<Source>& inputs) { return inputs.front(); }

  Source push(config::LayerKind kind, const Layer& layer, const char* ending,
              std::vector<Source> inputs, const Scope& scope) {
    Layer made;
    made.kind = std::move(kind);
    made.name = layer.name.empty() ? "" : scope.full_name(layer.name) + ending;
    made.inputs = std::move(inputs);
    made.loc = layer.loc;
    layers_.push_back(std::move(made));
    return source_at(layers_.size() - 1);
  }

  std::vector<Layer> layers_;
};

}  // namespace

NamedLayers expand_layers(const std::vector<config::Layer>& layers,
                          std::vector<Diagnostic>& errors) {
  Expander expander;
  Scope scope;
  expander.add_list(layers, "input", scope);
  NamedLayers result;
  result.layers = expander.take();
  result.names = layer_names(result.layers, errors);
  for (Layer& layer : result.layers) {
    for (std::string& input : layer.inputs) {
      if (input.starts_with(kPlace)) input = result.names[std::stoul(input.substr(1))];
    }
  }
  return result;
}

}  // namespace trainer::model
