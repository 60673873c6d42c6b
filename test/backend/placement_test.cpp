// Where backends put buffers and variables.
#include "backend/placement.h"

#include <doctest/doctest.h>

#include "backend/arena.h"
#include "backend/nets.h"
#include "base/numbers/random.h"
#include "compile/compile.h"

namespace trainer::test {
namespace {

using backend::ArenaPlan;
using backend::Lifetime;
using backend::Placement;
using Kind = backend::FlatBuffer::Kind;

bool live_together(const Lifetime& a, const Lifetime& b) {
  return a.first <= b.last && b.first <= a.last;
}

}  // namespace

TEST_CASE("arena: buffers that live at the same time do not overlap, others share memory") {
  Random random(3, Stream::kSynthetic);
  std::vector<Lifetime> buffers;
  for (int i = 0; i < 200; ++i) {
    const auto first = static_cast<int>(random.below(50));
    buffers.push_back({static_cast<std::int64_t>(1 + random.below(5000)), first,
                       first + static_cast<int>(random.below(6))});
  }
  const ArenaPlan plan = backend::plan_arena(buffers, 256);
  std::int64_t sum = 0, most_live = 0;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    sum += buffers[i].bytes;
    CHECK(plan.offsets[i] % 256 == 0);
    CHECK(plan.offsets[i] + buffers[i].bytes <= plan.bytes);
    for (std::size_t j = 0; j < i; ++j) {
      if (!live_together(buffers[i], buffers[j])) continue;
      CHECK((plan.offsets[i] + buffers[i].bytes <= plan.offsets[j] ||
             plan.offsets[j] + buffers[j].bytes <= plan.offsets[i]));
    }
  }
  for (int step = 0; step < 56; ++step) {
    std::int64_t live = 0;
    for (const Lifetime& buffer : buffers) {
      if (buffer.first <= step && step <= buffer.last) live += buffer.bytes;
    }
    most_live = std::max(most_live, live);
  }
  CHECK(plan.bytes >= most_live);
  CHECK(plan.bytes < sum / 4);
  CHECK(backend::plan_arena({}, 256).bytes == 0);
}

TEST_CASE("placement: every persistent value has a place of its own in the flat buffers") {
  compile::Options options;
  options.update.rule = graph::AdamRule{};
  options.update.ema = 0.9f;
  const graph::Graph graph = compile::training_graph(forward_graph(kNormalised), options);
  const Placement placement = backend::place_variables(graph);
  CHECK(placement.flat.slots == 2);
  CHECK(placement.flat.average);
  std::int64_t statistics = 0;
  for (const graph::Value& value : placement.values) {
    const Placement::Location& place = placement.at(value.name);
    CHECK(place.count == value.shape.elements());
    const std::int64_t limit = place.buffer.kind == Kind::kStatistics ? placement.flat.statistics
                               : place.buffer.kind == Kind::kRest     ? placement.rest
                                                                      : placement.flat.count;
    CHECK(place.offset + place.count <= limit);
    if (place.buffer.kind == Kind::kStatistics) statistics += place.count;
    for (const graph::Value& other : placement.values) {
      const Placement::Location& there = placement.at(other.name);
      const bool is_same_buffer =
          there.buffer.kind == place.buffer.kind && there.buffer.slot == place.buffer.slot;
      if (&other == &value || !is_same_buffer) continue;
      CHECK((place.offset + place.count <= there.offset ||
             there.offset + there.count <= place.offset));
    }
  }
  CHECK(statistics == placement.flat.statistics);
  std::int64_t last = -1;
  for (const backend::Segment& segment : placement.flat.segments) {
    CHECK(segment.offset > last);  // the order of backward
    CHECK(segment.offset % 16 == 0);
    CHECK(placement.changed_by_training(segment.parameter));
    last = segment.offset;
  }
  CHECK_THROWS_AS(placement.at("no such value"), std::logic_error);
}

}  // namespace trainer::test
