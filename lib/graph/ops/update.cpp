#include "graph/ops/update.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "graph/contexts.h"

namespace trainer::graph {
namespace {

std::vector<Slot> rule_slots(const SgdRule& rule) {
  if (rule.momentum == 0) return {};
  return {{"momentum", false}};
}

std::vector<Slot> rule_slots(const RmsPropRule& rule) {
  std::vector<Slot> slots{{"velocity", false}};
  if (rule.momentum != 0) slots.push_back({"momentum", false});
  if (rule.centered) slots.push_back({"average_gradient", false});
  return slots;
}

std::vector<Slot> rule_slots(const AdamRule& rule) {
  std::vector<Slot> slots{{"m", false}, {"v", false}};
  if (rule.amsgrad) slots.push_back({"v_max", false});
  return slots;
}

std::vector<Slot> rule_slots(const NadamRule&) { return {{"m", false}, {"v", false}}; }

std::vector<Slot> rule_slots(const AdagradRule& rule) {
  return {{"accumulator", false, static_cast<double>(rule.initial)}};
}

std::vector<Slot> rule_slots(const LionRule&) { return {{"m", false}}; }

std::vector<Slot> rule_slots(const LambRule&) { return {{"m", false}, {"v", false}}; }

// prod over i = 1 ... t of (1 - 0.96^i / 2), whose factors are 1 in double from some i on.
double momentum_schedule(std::uint64_t t) {
  constexpr std::size_t kFactors = 1024;
  static const std::array<double, kFactors> kProducts = [] {
    std::array<double, kFactors> products{};
    double product = 1;
    for (std::size_t i = 0; i < kFactors; ++i) {
      products[i] = product;
      product *= 1 - 0.5 * std::pow(0.96, static_cast<double>(i + 1));
    }
    return products;
  }();
  return kProducts[std::min<std::uint64_t>(t, kFactors - 1)];
}

std::string rule_text(const SgdRule& rule) {
  if (rule.momentum == 0) return "sgd";
  return words({concat("sgd momentum ", rule.momentum), flag(rule.nesterov, "nesterov")});
}

std::string rule_text(const RmsPropRule& rule) {
  return words({concat("rmsprop rho ", rule.rho),
                rule.momentum == 0 ? "" : concat("momentum ", rule.momentum),
                concat("epsilon ", rule.epsilon), flag(rule.centered, "centered")});
}

std::string rule_text(const AdamRule& rule) {
  return words({concat("adam beta ", rule.beta_1, ",", rule.beta_2, " epsilon ", rule.epsilon),
                flag(rule.amsgrad, "amsgrad")});
}

std::string rule_text(const NadamRule& rule) {
  return concat("nadam beta ", rule.beta_1, ",", rule.beta_2, " epsilon ", rule.epsilon);
}

std::string rule_text(const AdagradRule& rule) {
  return concat("adagrad initial ", rule.initial, " epsilon ", rule.epsilon);
}

std::string rule_text(const LionRule& rule) {
  return concat("lion beta ", rule.beta_1, ",", rule.beta_2);
}

std::string rule_text(const LambRule& rule) {
  return concat("lamb beta ", rule.beta_1, ",", rule.beta_2, " epsilon ", rule.epsilon);
}

std::string clip_text(const Clip& clip) {
  constexpr const char* kNames[] = {"", "value", "norm", "global norm"};
  if (clip.kind == Clip::Kind::kNone) return "";
  return concat("clip ", kNames[static_cast<int>(clip.kind)], " ", clip.limit);
}

}  // namespace

float average_momentum(const Update& op, std::uint64_t update) {
  if (update <= 1) return 0;
  if (!op.ema_warm_up) return op.ema;
  const double rising = 1 - std::pow(static_cast<double>(update), -2.0 / 3);
  return std::min(op.ema, static_cast<float>(rising));
}

NadamFactors nadam_factors(const NadamRule& rule, std::uint64_t t) {
  const auto b1 = static_cast<double>(rule.beta_1), n = static_cast<double>(t);
  const auto momentum = [&](double i) { return b1 * (1 - 0.5 * std::pow(0.96, i)); };
  const double now = momentum(n), next = momentum(n + 1);
  const double product = momentum_schedule(t) * std::pow(b1, n);
  return {next / (1 - product * next), (1 - now) / (1 - product),
          1 / (1 - std::pow(static_cast<double>(rule.beta_2), n))};
}

std::vector<Slot> list_slots(const Update& update) {
  std::vector<Slot> slots =
      std::visit([](const auto& rule) { return rule_slots(rule); }, update.rule);
  if (update.ema > 0) slots.push_back({"average", true});
  return slots;
}

std::string Update::text() const {
  return words({std::visit([](const auto& each) { return rule_text(each); }, rule), clip_text(clip),
                l1 > 0 ? concat("l1 ", l1) : "", l2 > 0 ? concat("l2 ", l2) : "",
                weight_decay > 0 ? concat("decay ", weight_decay) : "",
                learning_rate_multiplier != 1 ? concat("lr x", learning_rate_multiplier) : "",
                ema > 0 ? concat("ema ", ema) : "", flag(ema_warm_up, "warm-up")});
}

Outputs Update::infer(const ShapeContext& context) const {
  const std::size_t slots = list_slots(*this).size();
  expect_inputs(context, 2 + slots);
  const Typed& parameter = context.inputs[0];
  for (std::size_t i = 1; i < context.inputs.size(); ++i) {
    expect_shape(context, i, parameter.shape, i == 1 ? "gradient" : "slot");
  }
  return Outputs(1 + slots, parameter);
}

}  // namespace trainer::graph
