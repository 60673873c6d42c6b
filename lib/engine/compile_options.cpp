#include "engine/compile_options.h"

#include <variant>
#include <vector>

#include "base/error.h"
#include "engine/engine.h"
#include "optim/optim.h"

namespace trainer::engine {
namespace {

// The start of a dynamic loss scale: the largest power of two with which gradients of 1 still fit
// into float16, to within a factor of two as in PyTorch's GradScaler and Keras's
// LossScaleOptimizer.
constexpr float kFirstLossScale = 65536;

// The speeds are those of lib/decisions/backend.md.
constexpr const char* kSlowBFloat16 =
    "train.precision: bfloat16 usually trains at 0.6 to 1.0 times the speed of float32 on this "
    "processor, which does not multiply faster in it; use float32, or auto, which takes bfloat16 "
    "where it is faster";

backend::ReductionOptions reduction_options(const config::Parallel& parallel, bool remote) {
  backend::ReductionOptions options;
  options.ordered = parallel.reduction == config::Parallel::Reduction::kOrdered;
  options.micro_batches = parallel.micro_batches;
  const double chosen = remote ? kRemoteBucketMb : 0;
  options.bucket_bytes = static_cast<std::int64_t>(parallel.bucket_mb.value_or(chosen) * (1 << 20));
  return options;
}

// Returns the loss scale of a config, which is 1 unless activations are float16.
backend::CompileOptions::LossScale choose_loss_scale(const config::Train& train) {
  if (train.precision != config::Precision::kFloat16) return {};
  if (train.loss_scale && train.loss_scale->fixed) {
    return {static_cast<float>(*train.loss_scale->fixed), false};
  }
  return {kFirstLossScale, true};
}

}  // namespace

Notice resolve_precision(config::Config& config, const backend::Platform& platform) {
  using config::Precision;
  Precision& precision = config.train.precision;
  const bool is_automatic = precision == Precision::kAuto;
  if (!is_automatic && precision != Precision::kBFloat16) return "";
  const bool is_preferred = backend::prefers_bfloat16(device_options(config.parallel, platform));
  if (!is_automatic) return is_preferred ? "" : kSlowBFloat16;
  precision = is_preferred ? Precision::kBFloat16 : Precision::kFloat32;
  return Notice::note(concat("train.precision: auto takes ", spell(precision)));
}

compile::Options compile_options(const config::Config& config, const backend::Backend& backend) {
  compile::Options options;
  options.update = optim::update_spec(config.optimizer).update;
  options.recompute = config.train.recompute == config::Recompute::kBlocks;
  bool supported = true;
  switch (config.train.precision) {
    case config::Precision::kFloat32:
      break;
    case config::Precision::kTf32:
      supported = backend.has_tf32();
      break;
    case config::Precision::kAuto:
      if (backend.prefers_bfloat16()) options.activations = DType::kBFloat16;
      break;
    case config::Precision::kBFloat16:
      options.activations = DType::kBFloat16;
      break;
    case config::Precision::kFloat16:
      options.activations = DType::kFloat16;
      break;
  }
  if (!supported || !backend.supports(options.activations)) {
    throw ConfigError(config.train.loc, concat("train.precision: ", spell(config.train.precision),
                                               " is not supported by this device (",
                                               backend.describe(), "); use float32"));
  }
  return options;
}

backend::CompileOptions executable_options(const config::Config& config, bool remote) {
  backend::CompileOptions options;
  options.convolution = config.parallel.convolution;
  options.tf32 = config.train.precision == config::Precision::kTf32;
  options.loss_scale = choose_loss_scale(config.train);
  options.reduction = reduction_options(config.parallel, remote);
  return options;
}

graph::Graph training_model(const graph::Graph& model, bool mixes_samples) {
  graph::Graph trained = model;
  for (const graph::Node& node : trained.nodes) {
    const auto* loss = std::get_if<graph::Loss>(&node.op);
    if (loss == nullptr || !(mixes_samples || loss->sample_weight)) continue;
    const std::int64_t outputs = trained[node.inputs[0]].shape[1];
    graph::Value& labels = trained[node.inputs[1]];
    labels.type = DType::kFloat32;
    labels.shape = {kBatch, loss->sample_weight ? outputs + 1 : outputs};
  }
  return trained;
}

void check_no_batch_statistics(const graph::Graph& training) {
  std::vector<Diagnostic> diagnostics;
  for (const graph::Node& node : training.nodes) {
    if (!std::holds_alternative<graph::BatchNorm>(node.op)) continue;
    diagnostics.push_back(
        {node.loc, concat("layer ", node.name,
                          ": takes statistics over the batch, so that parallel.reduction: ordered "
                          "cannot cut it up; freeze the layer, or use reduction: fast with "
                          "parallel.batch_norm.sync")});
  }
  if (!diagnostics.empty()) throw ConfigError(diagnostics);
}

}  // namespace trainer::engine
