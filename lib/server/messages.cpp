#include "server/messages.h"

#include <algorithm>
#include <iterator>
#include <sstream>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <variant>

#include "base/error.h"

namespace trainer::server {
namespace {

using backend::FlatBuffer;

using BufferPair = std::pair<FlatBuffer::Kind, proto::Part::Buffer>;
constexpr BufferPair kBuffers[] = {{FlatBuffer::Kind::kParameters, proto::Part::PARAMETERS},
                                   {FlatBuffer::Kind::kSlot, proto::Part::SLOT},
                                   {FlatBuffer::Kind::kAverage, proto::Part::AVERAGE},
                                   {FlatBuffer::Kind::kStatistics, proto::Part::STATISTICS}};

using OutcomePair = std::pair<Outcome::Kind, proto::Outcome::Kind>;
constexpr OutcomePair kOutcomes[] = {{Outcome::Kind::kDone, proto::Outcome::DONE},
                                     {Outcome::Kind::kInterrupted, proto::Outcome::INTERRUPTED},
                                     {Outcome::Kind::kFailed, proto::Outcome::FAILED},
                                     {Outcome::Kind::kRefused, proto::Outcome::REFUSED}};

// Rejects lamb, as config/checks does: its norms need whole parameters, and a server has a part of
// each.
void check_supported(const graph::UpdateRule& rule) {
  if (std::holds_alternative<graph::LambRule>(rule)) {
    throw std::invalid_argument("lamb cannot be used with parameter servers");
  }
}

void set_rule(const graph::UpdateRule& rule, proto::Segment& message) {
  check_supported(rule);
  message.set_rule(static_cast<std::uint32_t>(rule.index()));
  const auto set = [&]<class Number>(const Number& number) {
    if constexpr (std::is_same_v<Number, bool>) {
      message.set_flag(number);
    } else {
      message.add_numbers(number);
    }
  };
  graph::each_number(rule, set);
}

// Returns a rule of the kind with this index in graph::UpdateRule.
template <std::size_t kIndex = 0>
graph::UpdateRule make_rule(std::uint32_t index) {
  if constexpr (kIndex == std::variant_size_v<graph::UpdateRule>) {
    throw std::invalid_argument("an unknown rule");
  } else {
    if (index != kIndex) return make_rule<kIndex + 1>(index);
    return graph::UpdateRule(std::in_place_index<kIndex>);
  }
}

graph::UpdateRule read_rule(const proto::Segment& message) {
  graph::UpdateRule rule = make_rule(message.rule());
  check_supported(rule);
  int i = 0;
  const auto read = [&]<class Number>(Number& number) {
    if constexpr (std::is_same_v<Number, bool>) {
      number = message.flag();
    } else {
      if (i >= message.numbers_size()) throw std::invalid_argument("a rule lacks numbers");
      number = message.numbers(i++);
    }
  };
  graph::each_number(rule, read);
  return rule;
}

backend::Segment read_segment(const proto::Segment& message) {
  backend::Segment segment;
  segment.offset = message.offset();
  segment.count = message.count();
  segment.slots = message.slots();
  segment.average = message.ema() > 0;
  graph::Update& update = segment.update;
  update.rule = read_rule(message);
  // The worker clips by norm, because it has the whole gradient.
  if (message.clip_value() > 0) update.clip = {graph::Clip::Kind::kValue, message.clip_value()};
  update.l2 = message.l2();
  update.l1 = message.l1();
  update.weight_decay = message.weight_decay();
  update.learning_rate_multiplier = message.learning_rate_multiplier();
  update.ema = message.ema();
  update.ema_warm_up = message.ema_warm_up();
  update.updates_before = message.updates_before();
  return segment;
}

}  // namespace

proto::Layout to_message(const Start& start) {
  proto::Layout layout;
  for (const backend::Segment& segment : start.flat.segments) {
    proto::Segment& message = *layout.add_segments();
    const graph::Update& update = segment.update;
    message.set_offset(segment.offset);
    message.set_count(segment.count);
    message.set_slots(segment.slots);
    set_rule(update.rule, message);
    if (update.clip.kind == graph::Clip::Kind::kValue) message.set_clip_value(update.clip.limit);
    message.set_l2(update.l2);
    message.set_l1(update.l1);
    message.set_weight_decay(update.weight_decay);
    message.set_learning_rate_multiplier(update.learning_rate_multiplier);
    message.set_ema(update.ema);
    message.set_ema_warm_up(update.ema_warm_up);
    message.set_updates_before(update.updates_before);
  }
  layout.set_count(start.flat.count);
  layout.set_slots(start.flat.slots);
  layout.set_average(start.flat.average);
  layout.set_statistics(start.flat.statistics);
  layout.set_step(start.step);
  layout.set_total_steps(start.total_steps);
  layout.set_train_samples(start.train_samples);
  layout.set_model(start.model);
  return layout;
}

Start from_message(const proto::Layout& layout) {
  Start start;
  for (const proto::Segment& message : layout.segments()) {
    start.flat.segments.push_back(read_segment(message));
  }
  if (layout.slots() < 0 || layout.slots() > 3 || layout.count() < 0 || layout.statistics() < 0) {
    throw std::invalid_argument("a layout with sizes that cannot be");
  }
  start.flat.count = layout.count();
  start.flat.slots = layout.slots();
  start.flat.average = layout.average();
  start.flat.statistics = layout.statistics();
  start.step = layout.step();
  start.total_steps = layout.total_steps();
  start.train_samples = layout.train_samples();
  start.model = layout.model();
  return start;
}

proto::Part to_message(FlatBuffer buffer) {
  proto::Part part;
  part.set_slot(buffer.slot);
  part.set_buffer(std::ranges::find(kBuffers, buffer.kind, &BufferPair::first)->second);
  return part;
}

FlatBuffer from_message(const proto::Part& part) {
  const auto* found = std::ranges::find(kBuffers, part.buffer(), &BufferPair::second);
  if (found == std::end(kBuffers)) throw std::invalid_argument("no such buffer");
  if (found->first != FlatBuffer::Kind::kSlot) return {found->first};
  if (part.slot() < 0 || part.slot() > 2) throw std::invalid_argument("no such slot");
  return {found->first, part.slot()};
}

proto::Outcome to_message(const Outcome& outcome) {
  proto::Outcome message;
  message.set_message(outcome.message);
  message.set_kind(std::ranges::find(kOutcomes, outcome.kind, &OutcomePair::first)->second);
  return message;
}

// Returns a failure for an unknown kind.
Outcome from_message(const proto::Outcome& message) {
  const auto* found = std::ranges::find(kOutcomes, message.kind(), &OutcomePair::second);
  const bool is_known = found != std::end(kOutcomes);
  return {is_known ? found->first : Outcome::Kind::kFailed, message.message()};
}

std::string to_bytes(std::span<const float> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size_bytes()};
}

// A string's memory comes from operator new, or is the string itself: aligned for a float.
std::span<const float> from_bytes(const std::string& bytes) {
  if (bytes.size() % sizeof(float) != 0) throw std::invalid_argument("bytes that are not floats");
  return {reinterpret_cast<const float*>(bytes.data()), bytes.size() / sizeof(float)};
}

Difference first_difference(const std::string& mine, const std::string& theirs) {
  std::istringstream a(mine), b(theirs);
  for (;;) {
    std::string x, y;
    const bool more_a = static_cast<bool>(std::getline(a, x));
    const bool more_b = static_cast<bool>(std::getline(b, y));
    if (x != y || (!more_a && !more_b)) return {x, y};
  }
}

}  // namespace trainer::server
