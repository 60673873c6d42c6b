#include "server/messages.h"

#include <doctest/doctest.h>

#include <set>
#include <stdexcept>
#include <variant>
#include <vector>

namespace trainer::server {
namespace {

Start start_with(const graph::UpdateRule& rule) {
  Start start;
  backend::Segment segment;
  segment.update.rule = rule;
  start.flat.segments = {segment};
  return start;
}

std::vector<float> read_numbers(const graph::UpdateRule& rule) {
  std::vector<float> numbers;
  const auto add = [&](auto number) { numbers.push_back(static_cast<float>(number)); };
  graph::each_number(rule, add);
  return numbers;
}

graph::UpdateRule send(const graph::UpdateRule& rule) {
  return from_message(to_message(start_with(rule))).flat.segments.at(0).update.rule;
}

}  // namespace

TEST_CASE("messages: a rule arrives with all its numbers") {
  const std::vector<graph::UpdateRule> rules{
      graph::SgdRule{0.5f, true},
      graph::SgdRule{0.25f, false},
      graph::RmsPropRule{0.5f, 0.25f, 0.125f, true},
      graph::RmsPropRule{0.5f, 0.25f, 0.125f, false},
      graph::AdamRule{0.5f, 0.25f, 0.125f, true},
      graph::NadamRule{0.5f, 0.25f, 0.125f},
      graph::AdagradRule{0.5f, 0.25f},
      graph::LionRule{0.5f, 0.25f},
  };
  std::set<std::size_t> kinds{graph::UpdateRule(graph::LambRule{}).index()};  // is rejected
  for (const graph::UpdateRule& rule : rules) {
    CAPTURE(rule.index());
    kinds.insert(rule.index());
    const graph::UpdateRule received = send(rule);
    CHECK(received.index() == rule.index());
    CHECK(read_numbers(received) == read_numbers(rule));
  }
  CHECK(kinds.size() == std::variant_size_v<graph::UpdateRule>);
  CHECK(read_numbers(send(graph::SgdRule{0.5f, true})) == std::vector<float>{0.5f, 1});
}

TEST_CASE("messages: a rule that needs whole parameters is rejected by both sides") {
  CHECK_THROWS_AS(to_message(start_with(graph::LambRule{})), std::invalid_argument);
  proto::Layout layout = to_message(start_with(graph::AdamRule{}));
  layout.mutable_segments(0)->set_rule(
      static_cast<std::uint32_t>(graph::UpdateRule(graph::LambRule{}).index()));
  CHECK_THROWS_AS(from_message(layout), std::invalid_argument);
}

TEST_CASE("messages: a rule that does not exist or lacks a number is rejected") {
  proto::Layout layout = to_message(start_with(graph::AdamRule{}));
  layout.mutable_segments(0)->set_rule(std::variant_size_v<graph::UpdateRule>);
  CHECK_THROWS_AS(from_message(layout), std::invalid_argument);
  layout = to_message(start_with(graph::AdamRule{}));
  layout.mutable_segments(0)->mutable_numbers()->RemoveLast();
  CHECK_THROWS_AS(from_message(layout), std::invalid_argument);
}

}  // namespace trainer::server
