#include <doctest/doctest.h>

#include "optim/optim.h"

namespace trainer::optim {
namespace {

UpdateSpec spec(config::OptimizerKind kind) {
  config::Optimizer optimizer;
  optimizer.kind = std::move(kind);
  return update_spec(optimizer);
}

}  // namespace

TEST_CASE("update_spec: each optimizer gives its update rule") {
  const auto sgd = spec(config::Sgd{0.5, 0.9, true, 0.01});
  CHECK(sgd.learning_rate == 0.5);
  CHECK(std::get<graph::SgdRule>(sgd.update.rule).momentum == 0.9f);
  CHECK(std::get<graph::SgdRule>(sgd.update.rule).nesterov);
  CHECK(sgd.update.weight_decay == 0.01f);

  const auto rms = spec(config::RmsProp{0.1, 0.8, 0.7, 1e-5, true, 0});
  const auto& rms_rule = std::get<graph::RmsPropRule>(rms.update.rule);
  CHECK(rms_rule.rho == 0.8f);
  CHECK(rms_rule.momentum == 0.7f);
  CHECK(rms_rule.epsilon == 1e-5f);
  CHECK(rms_rule.centered);

  const auto adam = spec(config::Adam{0.2, 0.8, 0.99, 1e-6, true});
  const auto& rule = std::get<graph::AdamRule>(adam.update.rule);
  CHECK(adam.learning_rate == 0.2);
  CHECK(rule.beta_1 == 0.8f);
  CHECK(rule.beta_2 == 0.99f);
  CHECK(rule.amsgrad);
  CHECK(adam.update.weight_decay == 0);

  const auto nadam = spec(config::Nadam{0.2, 0.8, 0.99, 1e-6, 0.03});
  const auto& nadam_rule = std::get<graph::NadamRule>(nadam.update.rule);
  CHECK(nadam.learning_rate == 0.2);
  CHECK(nadam_rule.beta_1 == 0.8f);
  CHECK(nadam_rule.beta_2 == 0.99f);
  CHECK(nadam_rule.epsilon == 1e-6f);
  CHECK(nadam.update.weight_decay == 0.03f);

  const auto adagrad = spec(config::Adagrad{0.3, 0.5, 1e-5, 0.02});
  const auto& adagrad_rule = std::get<graph::AdagradRule>(adagrad.update.rule);
  CHECK(adagrad.learning_rate == 0.3);
  CHECK(adagrad_rule.initial == 0.5f);
  CHECK(adagrad_rule.epsilon == 1e-5f);
  CHECK(adagrad.update.weight_decay == 0.02f);
  CHECK(graph::list_slots(adagrad.update).front().initial == 0.5);

  const auto lion = spec(config::Lion{0.4, 0.7, 0.6, 0.01});
  const auto& lion_rule = std::get<graph::LionRule>(lion.update.rule);
  CHECK(lion.learning_rate == 0.4);
  CHECK(lion_rule.beta_1 == 0.7f);
  CHECK(lion_rule.beta_2 == 0.6f);
  CHECK(lion.update.weight_decay == 0.01f);

  const auto adamw = spec(config::AdamW{});
  CHECK(std::holds_alternative<graph::AdamRule>(adamw.update.rule));
  CHECK(adamw.update.weight_decay == 4e-3f);
}

TEST_CASE("update_spec has clipping and the weight average") {
  using Kind = graph::Clip::Kind;
  config::Optimizer optimizer;
  CHECK(update_spec(optimizer).update.clip.kind == Kind::kNone);
  CHECK(update_spec(optimizer).update.ema == 0);
  optimizer.ema = 0.99;
  SUBCASE("value") {
    optimizer.clip_value = 0.5;
    CHECK(update_spec(optimizer).update.clip.kind == Kind::kValue);
  }
  SUBCASE("norm") {
    optimizer.clip_norm = 0.5;
    CHECK(update_spec(optimizer).update.clip.kind == Kind::kNorm);
  }
  SUBCASE("global norm") {
    optimizer.global_clip_norm = 0.5;
    CHECK(update_spec(optimizer).update.clip.kind == Kind::kGlobalNorm);
  }
  CHECK(update_spec(optimizer).update.clip.limit == 0.5f);
  CHECK(update_spec(optimizer).update.ema == 0.99f);
}

}  // namespace trainer::optim
