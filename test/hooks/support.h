// What a loop would pass to hooks, for tests.
#pragma once

#include <sstream>
#include <string>
#include <vector>

#include "hooks/hooks.h"
#include "support/confusion.h"

namespace trainer::hooks::test {

inline config::Duration steps(double count) { return {count, config::Duration::Unit::kSteps}; }

inline std::vector<std::string> split_into_lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

inline RunInfo run_info(const Path& dir, std::int64_t first_step = 0,
                        std::int64_t total_steps = 20) {
  RunInfo info;
  info.name = "digits";
  info.dir = dir;
  info.total_steps = total_steps;
  info.steps_per_epoch = 8;
  info.first_step = first_step;
  info.global_batch = 64;
  info.devices = "2 CPU threads";
  return info;
}

// Step n has loss n / 10, takes 20 ms, a quarter of them waiting.
inline StepRecord after_step(std::int64_t n) {
  StepRecord p;
  p.step = n;
  p.epoch = static_cast<double>(n) / 8;
  p.samples = 64;
  p.loss = static_cast<double>(n) / 10;
  p.accuracy = 0.5;
  p.learning_rate = static_cast<double>(0.001f);
  p.step_seconds = 0.02;
  p.wait_seconds = 0.005;
  p.elapsed = 0.02 * static_cast<double>(n);
  return p;
}

// 3 of 4 samples of two classes are right.
inline Evaluation evaluation(Split split, std::int64_t step, double loss) {
  Evaluation e{split, step, static_cast<double>(step) / 8, 1.25, {}};
  e.metrics.count = 4;
  e.metrics.loss = loss;
  e.metrics.correct = 3;
  e.metrics.accuracy = 0.75;
  e.metrics.accuracy_interval = engine::wilson(3, 4);
  e.metrics.classes = 2;
  e.metrics.confusion = make_confusion({2, 0, 1, 1});
  return e;
}

inline Finish finish(FinishReason reason, std::int64_t steps_done = 20) {
  Finish f;
  f.steps = steps_done;
  f.wall_seconds = 12.3456;
  f.step_seconds = 10.5;
  f.images_per_second = 21345.67;
  f.reason = reason;
  f.parameters_sha256 = "ab12";
  return f;
}

}  // namespace trainer::hooks::test
