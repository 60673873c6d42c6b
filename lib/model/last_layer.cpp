#include "model/last_layer.h"

#include <variant>

#include "base/error.h"
#include "base/spelling.h"
#include "model/expand_layers.h"

namespace trainer::model {
namespace {

using config::Activation;

// Returns the function that a layer applies to its result; kLinear for none.
Activation find_function(const config::Layer& layer) {
  return std::visit(
      []([[maybe_unused]] const auto& kind) {
        if constexpr (requires { kind.activation; }) return kind.activation;
        if constexpr (requires { kind.function; }) return kind.function;
        return Activation::kLinear;
      },
      layer.kind);
}

}  // namespace

std::string describe_repeated_function(const config::Layer& last, LossKind loss) {
  const Activation function = find_function(last);
  const bool is_softmax_loss = loss == LossKind::kSoftmaxCrossEntropy;
  const bool takes_logits = is_softmax_loss || loss == LossKind::kBinaryCrossEntropy;
  const bool repeats =
      function == Activation::kSigmoid || (function == Activation::kSoftmax && is_softmax_loss);
  if (!takes_logits || !repeats) return "";
  return concat(spell(loss), " takes logits and applies its own function to them; remove ", "the ",
                spell(function), " at the end of the model");
}

void check_last_layer(const config::Model& model) {
  const std::vector<config::Layer>& layers = model.backbone ? model.head : model.layers;
  if (layers.empty()) return;
  std::vector<Diagnostic> ignored;  // build_model() reports mistakes in names
  const NamedLayers expanded = expand_layers(layers, ignored);
  if (expanded.layers.empty()) return;
  const std::string error = describe_repeated_function(expanded.layers.back(), model.loss);
  if (error.empty()) return;
  throw ConfigError(expanded.layers.back().loc, concat(expanded.names.back(), ": ", error));
}

}  // namespace trainer::model
