// A small layout with values, for servers without a model.
#pragma once

#include <cstdint>
#include <vector>

#include "server/client.h"

namespace trainer::server {

// Two parameters of 40 and 9 elements under Adam with a weight average, and three statistics.
inline Start small_start() {
  Start start;
  graph::Update update;
  update.rule = graph::AdamRule{};
  update.ema = 0.9f;
  update.ema_warm_up = true;
  update.l2 = 0.01f;
  start.flat.segments = {{"a", 0, 40, update, 2, true}, {"b", 48, 9, update, 2, true}};
  start.flat.segments[1].update.learning_rate_multiplier = 0.5f;
  start.flat.count = 64;
  start.flat.slots = 2;
  start.flat.average = true;
  start.flat.statistics = 3;
  start.total_steps = 1000;
  start.train_samples = 100;
  start.model = "training data: x\n";
  return start;
}

// Some numbers that are a function of their place and `seed`.
inline std::vector<float> numbers(std::size_t count, int seed) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = static_cast<float>((i * 7 + static_cast<std::size_t>(seed) * 13) % 31) / 31 - 0.5f;
  }
  return values;
}

inline double rate_of_tests(std::int64_t step) { return 0.1 / static_cast<double>(step + 1); }

}  // namespace trainer::server
