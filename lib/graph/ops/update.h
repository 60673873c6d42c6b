// The update of a parameter by an optimizer. In the rules' formulas g is the gradient, w the
// parameter, lr the run-time learning rate and t the number of the update, from 1. numbers() refers
// to the floats and bools of a rule, in the order in which processes send them to each other.
#pragma once

#include <string>
#include <tuple>
#include <variant>
#include <vector>

#include "graph/rules.h"

namespace trainer::graph {

// v = momentum * v - lr * g; w += nesterov ? momentum * v - lr * g : v.
// Without momentum: w -= lr * g.
struct SgdRule {
  float momentum = 0;
  bool nesterov = false;

  static auto numbers(auto& rule) { return std::tie(rule.momentum, rule.nesterov); }
};

// Keras RMSprop: r = rho r + (1-rho) g^2; [m = rho m + (1-rho) g]; d = r [- m^2] + eps;
// with momentum v = momentum v + lr g / sqrt(d), w -= v; else w -= lr g / sqrt(d).
struct RmsPropRule {
  float rho = 0.9f, momentum = 0, epsilon = 1e-7f;
  bool centered = false;

  static auto numbers(auto& rule) {
    return std::tie(rule.rho, rule.momentum, rule.epsilon, rule.centered);
  }
};

// Keras Adam: m += (g - m)(1 - b1); v += (g^2 - v)(1 - b2); a = lr sqrt(1 - b2^t) / (1 - b1^t);
// w -= a m / (sqrt(v) + eps). With amsgrad, the running maximum of v takes its place.
struct AdamRule {
  float beta_1 = 0.9f, beta_2 = 0.999f, epsilon = 1e-7f;
  bool amsgrad = false;

  static auto numbers(auto& rule) {
    return std::tie(rule.beta_1, rule.beta_2, rule.epsilon, rule.amsgrad);
  }
};

// Keras Nadam: m and v as Adam; u_t = b1 (1 - 0.96^t / 2), U_t the product of u_1 ... u_t;
// w -= lr (u_(t+1) m / (1 - U_(t+1)) + (1 - u_t) g / (1 - U_t)) / (sqrt(v / (1 - b2^t)) + eps)
struct NadamRule {
  float beta_1 = 0.9f, beta_2 = 0.999f, epsilon = 1e-7f;

  static auto numbers(auto& rule) { return std::tie(rule.beta_1, rule.beta_2, rule.epsilon); }
};
// The factors of m, g and v in update t, from 1.
struct NadamFactors {
  double mean, gradient, square;
};
NadamFactors nadam_factors(const NadamRule& rule, std::uint64_t t);

// Keras Adagrad: a += g^2, where a starts as `initial`; w -= lr g / sqrt(a + eps)
struct AdagradRule {
  float initial = 0.1f, epsilon = 1e-7f;

  static auto numbers(auto& rule) { return std::tie(rule.initial, rule.epsilon); }
};

// Keras Lion: w -= lr sign(b1 m + (1 - b1) g); m = b2 m + (1 - b2) g
struct LionRule {
  float beta_1 = 0.9f, beta_2 = 0.99f;

  static auto numbers(auto& rule) { return std::tie(rule.beta_1, rule.beta_2); }
};

// Keras Lamb: m and v as Adam; u = (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps);
// w -= lr r u with r = norm(w) / norm(u) of the whole parameter, and r = 1 if a norm is 0.
struct LambRule {
  float beta_1 = 0.9f, beta_2 = 0.999f, epsilon = 1e-7f;

  static auto numbers(auto& rule) { return std::tie(rule.beta_1, rule.beta_2, rule.epsilon); }
};

using UpdateRule =
    std::variant<SgdRule, RmsPropRule, AdamRule, NadamRule, AdagradRule, LionRule, LambRule>;

// Calls visit(number) for each of the numbers of a rule, which may be const.
template <class Rule, class Visit>
void each_number(Rule& rule, const Visit& visit) {
  const auto visit_all = [&](auto&... numbers) { (visit(numbers), ...); };
  std::visit([&](auto& each) { std::apply(visit_all, each.numbers(each)); }, rule);
}

struct Clip {
  enum class Kind { kNone, kValue, kNorm, kGlobalNorm } kind = Kind::kNone;
  float limit = 0;
};

// parameter, gradient, slots... [, average] -> parameter, slots... [, average], in place. The steps
// in this order:
//   1. g += 2 * l2 * w + l1 * sign(w), the gradient of L2Penalty; sign(0) is 0.
//   2. Clip g.
//   3. w -= lr * weight_decay * w, decoupled as in Keras.
//   4. The rule.
//   5. average = m * average + (1 - m) * w if ema > 0, with m of average_momentum().
// lr is the learning rate times learning_rate_multiplier. A parameter that was frozen at first
// counts its own updates from 1, since Adam corrects the bias of slots that start at 0.
struct Update {
  UpdateRule rule;
  Clip clip;
  float l2 = 0;
  float weight_decay = 0;
  float learning_rate_multiplier = 1;
  float ema = 0;
  std::uint64_t updates_before = 0;  // updates of the run before this parameter was trained
  float l1 = 0;
  bool ema_warm_up = false;

  static constexpr const char* kName = "update";
  std::string text() const;
  Outputs infer(const ShapeContext& context) const;
  Gradients differentiate(GradientContext& context) const { no_gradient(context); }
  std::int64_t flops(const NodeShapes&) const { return 0; }
  int alias(int output) const { return output == 0 ? 0 : output + 1; }
};

// Returns the momentum of the average at update number `update` of the parameter, counted from 1: 0
// at the first one, as in Keras, then ema, or with ema_warm_up min(ema, 1 - update^(-2/3)), as
// timm's ModelEmaV3 with use_warmup.
float average_momentum(const Update& op, std::uint64_t update);

// A persistent value that an update needs beside its parameter. It is named "<parameter>/<name>"
// and has the parameter's shape. It starts as a copy of the parameter with `copy`, else as the
// constant `initial`.
struct Slot {
  std::string name;
  bool copy = false;
  double initial = 0;
};
// Returns the slots of an update, in the order of its inputs.
std::vector<Slot> list_slots(const Update& update);

}  // namespace trainer::graph
