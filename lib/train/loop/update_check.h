// Reports trained parameters that the updates of a run do not change.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "hooks/hooks.h"
#include "train/loop/run_context.h"

namespace trainer::train {

// Watches each parameter for 50 updates from the step at which it is first trained. Updates with a
// learning rate of 0, and those that float16 skips, are not counted. Works in the chief alone.
class UpdateCheck {
 public:
  // `context` must outlive it.
  explicit UpdateCheck(RunContext& context) : context_(context) {}

  // Begins to watch the parameters that no earlier stage has trained. The engine must have its
  // variables and the frozen layers of the stage.
  void begin_stage();
  // Call it after each step. Warns after the last update of a watch.
  void after_step(const hooks::StepRecord& record);
  // Warns of parameters without a change in a run that ends before the last update of a watch.
  void finish();

 private:
  struct Parameter {
    std::string name;
    std::uint64_t checksum = 0;    // the checksum of the values before the first update
    bool is_gradient_zero = true;  // in all updates at which the gradient was read
  };
  // The parameters that are trained from the same step on.
  struct Watch {
    std::int64_t updates = 0;
    std::vector<Parameter> parameters;
  };

  void read_gradients(Watch& watch);
  void report(Watch& watch);
  std::uint64_t compute_checksum(const backend::Segment& segment);
  bool is_gradient_zero(const backend::Segment& segment);
  std::string describe(const std::vector<std::string>& parameters) const;

  RunContext& context_;
  std::vector<Watch> watches_;
  std::set<std::string> seen_;  // parameters that are or were watched
  std::vector<float> values_;   // scratch
  double learning_rate_ = 0;    // the rate of the last counted update
};

}  // namespace trainer::train
