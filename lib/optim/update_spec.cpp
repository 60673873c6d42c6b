#include "optim/optim.h"

namespace trainer::optim {
namespace {

UpdateSpec spec(const config::Sgd& sgd) {
  UpdateSpec spec;
  spec.update.rule = graph::SgdRule{static_cast<float>(sgd.momentum), sgd.nesterov};
  spec.update.weight_decay = static_cast<float>(sgd.weight_decay);
  spec.learning_rate = sgd.learning_rate;
  return spec;
}

UpdateSpec spec(const config::RmsProp& rms) {
  UpdateSpec spec;
  spec.update.rule =
      graph::RmsPropRule{static_cast<float>(rms.rho), static_cast<float>(rms.momentum),
                         static_cast<float>(rms.epsilon), rms.centered};
  spec.update.weight_decay = static_cast<float>(rms.weight_decay);
  spec.learning_rate = rms.learning_rate;
  return spec;
}

UpdateSpec spec(const config::Adam& adam) {
  UpdateSpec spec;
  spec.update.rule =
      graph::AdamRule{static_cast<float>(adam.beta_1), static_cast<float>(adam.beta_2),
                      static_cast<float>(adam.epsilon), adam.amsgrad};
  spec.learning_rate = adam.learning_rate;
  return spec;
}

UpdateSpec spec(const config::AdamW& adam) {
  UpdateSpec result =
      spec(config::Adam{adam.learning_rate, adam.beta_1, adam.beta_2, adam.epsilon, adam.amsgrad});
  result.update.weight_decay = static_cast<float>(adam.weight_decay);
  return result;
}

UpdateSpec spec(const config::Nadam& nadam) {
  UpdateSpec spec;
  spec.update.rule =
      graph::NadamRule{static_cast<float>(nadam.beta_1), static_cast<float>(nadam.beta_2),
                       static_cast<float>(nadam.epsilon)};
  spec.update.weight_decay = static_cast<float>(nadam.weight_decay);
  spec.learning_rate = nadam.learning_rate;
  return spec;
}

UpdateSpec spec(const config::Adagrad& adagrad) {
  UpdateSpec spec;
  spec.update.rule = graph::AdagradRule{static_cast<float>(adagrad.initial_accumulator_value),
                                        static_cast<float>(adagrad.epsilon)};
  spec.update.weight_decay = static_cast<float>(adagrad.weight_decay);
  spec.learning_rate = adagrad.learning_rate;
  return spec;
}

UpdateSpec spec(const config::Lion& lion) {
  UpdateSpec spec;
  spec.update.rule =
      graph::LionRule{static_cast<float>(lion.beta_1), static_cast<float>(lion.beta_2)};
  spec.update.weight_decay = static_cast<float>(lion.weight_decay);
  spec.learning_rate = lion.learning_rate;
  return spec;
}

UpdateSpec spec(const config::Lamb& lamb) {
  UpdateSpec spec;
  spec.update.rule =
      graph::LambRule{static_cast<float>(lamb.beta_1), static_cast<float>(lamb.beta_2),
                      static_cast<float>(lamb.epsilon)};
  spec.update.weight_decay = static_cast<float>(lamb.weight_decay);
  spec.learning_rate = lamb.learning_rate;
  return spec;
}

graph::Clip clip(const config::Optimizer& optimizer) {
  using Kind = graph::Clip::Kind;
  if (optimizer.clip_value) return {Kind::kValue, static_cast<float>(*optimizer.clip_value)};
  if (optimizer.clip_norm) return {Kind::kNorm, static_cast<float>(*optimizer.clip_norm)};
  if (optimizer.global_clip_norm) {
    return {Kind::kGlobalNorm, static_cast<float>(*optimizer.global_clip_norm)};
  }
  return {};
}

}  // namespace

UpdateSpec update_spec(const config::Optimizer& optimizer) {
  UpdateSpec result = std::visit([](const auto& each) { return spec(each); }, optimizer.kind);
  result.update.clip = clip(optimizer);
  result.update.ema = static_cast<float>(optimizer.ema.value_or(0));
  return result;
}

}  // namespace trainer::optim
