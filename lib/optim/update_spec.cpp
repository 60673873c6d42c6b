#include "optim/optim.h"

namespace trainer::optim {
namespace {

float to_float(double value) { return static_cast<float>(value); }

template <class Kind>
UpdateSpec make_spec(const graph::UpdateRule& rule, const Kind& kind) {
  UpdateSpec spec;
  spec.update.rule = rule;
  if constexpr (requires { kind.weight_decay; }) {
    spec.update.weight_decay = to_float(kind.weight_decay);
  }
  spec.learning_rate = kind.learning_rate;
  return spec;
}

graph::UpdateRule make_rule(const config::Sgd& sgd) {
  return graph::SgdRule{to_float(sgd.momentum), sgd.nesterov};
}
graph::UpdateRule make_rule(const config::RmsProp& rms) {
  return graph::RmsPropRule{to_float(rms.rho), to_float(rms.momentum), to_float(rms.epsilon),
                            rms.centered};
}
// Adam and AdamW.
graph::UpdateRule make_rule(const auto& adam) {
  return graph::AdamRule{to_float(adam.beta_1), to_float(adam.beta_2), to_float(adam.epsilon),
                         adam.amsgrad};
}
graph::UpdateRule make_rule(const config::Nadam& nadam) {
  return graph::NadamRule{to_float(nadam.beta_1), to_float(nadam.beta_2), to_float(nadam.epsilon)};
}
graph::UpdateRule make_rule(const config::Adagrad& adagrad) {
  return graph::AdagradRule{to_float(adagrad.initial_accumulator_value), to_float(adagrad.epsilon)};
}
graph::UpdateRule make_rule(const config::Lion& lion) {
  return graph::LionRule{to_float(lion.beta_1), to_float(lion.beta_2)};
}
graph::UpdateRule make_rule(const config::Lamb& lamb) {
  return graph::LambRule{to_float(lamb.beta_1), to_float(lamb.beta_2), to_float(lamb.epsilon)};
}

graph::Clip clip(const config::Optimizer& optimizer) {
  using Kind = graph::Clip::Kind;
  if (optimizer.clip_value) return {Kind::kValue, to_float(*optimizer.clip_value)};
  if (optimizer.clip_norm) return {Kind::kNorm, to_float(*optimizer.clip_norm)};
  if (optimizer.global_clip_norm) {
    return {Kind::kGlobalNorm, to_float(*optimizer.global_clip_norm)};
  }
  return {};
}

}  // namespace

UpdateSpec update_spec(const config::Optimizer& optimizer) {
  UpdateSpec result =
      std::visit([](const auto& kind) { return make_spec(make_rule(kind), kind); }, optimizer.kind);
  result.update.clip = clip(optimizer);
  result.update.ema = to_float(optimizer.ema.value_or(0));
  result.update.ema_warm_up = optimizer.ema_warm_up;
  return result;
}

}  // namespace trainer::optim
