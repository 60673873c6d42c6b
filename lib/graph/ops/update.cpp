#include "graph/rules.h"

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

}  // namespace

std::vector<Slot> slots_of(const Update& update) {
  std::vector<Slot> slots =
      std::visit([](const auto& rule) { return rule_slots(rule); }, update.rule);
  if (update.ema > 0) slots.push_back({"average", true});
  return slots;
}

namespace rules {

// In place: the parameter, then the slots, as alias_of() says.
Outputs infer(const Update& op, const Site& site) {
  const std::size_t slots = slots_of(op).size();
  expect_inputs(site, 2 + slots);
  const Typed& parameter = site.inputs[0];
  for (std::size_t i = 1; i < site.inputs.size(); ++i) {
    expect_shape(site, i, parameter.shape, i == 1 ? "gradient" : "slot");
  }
  return Outputs(1 + slots, parameter);
}

Gradients differentiate(const Update&, GradientSite& site) { no_gradient(site); }

}  // namespace rules
}  // namespace trainer::graph
