// A program that does not train, on all lanes or on one lane of all threads, by the size of a call.
// Reasons: lib/decisions/backend.md#short-calls-run-in-one-lane.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>

#include "backend/cpu/executable.h"

namespace trainer::backend::cpu {

// Calls with a sample per lane run on the lanes, and calls of fewer samples in one lane of all
// threads where runs_in_one_lane(). A program of one lane is compiled when a call first needs it.
// All programs share packed weights and arenas.
class EvaluationExecutable final : public Executable {
 public:
  // Compiles the program of calls of at most `samples` samples on so many lanes.
  using Compile = std::function<std::unique_ptr<CpuExecutable>(int lanes, std::int64_t samples)>;

  EvaluationExecutable(int lanes, int threads, std::int64_t max_samples, Compile compile)
      : lanes_(lanes),
        threads_(threads),
        compile_(std::move(compile)),
        on_lanes_(compile_(lanes, max_samples)) {}

  void launch(const Bindings& bindings, const Scalars& scalars, Stream& stream) override {
    program(bindings.samples).launch(bindings, scalars, stream);
  }
  void prepare(std::int64_t samples, std::int64_t all_samples) override {
    program(samples).prepare(samples, all_samples);
  }
  Gradient gradient(Stream& stream) override { return on_lanes_->gradient(stream); }
  void read_gradient(Stream& stream, std::int64_t first, std::span<float> to) override {
    on_lanes_->read_gradient(stream, first, to);
  }
  MemoryReport memory() const override { return on_lanes_->memory(); }
  void print(std::ostream& out) const override;
  bool record(WorkRecorder* recorder) override;

 private:
  CpuExecutable& program(std::int64_t samples);

  int lanes_, threads_;
  Compile compile_;
  std::unique_ptr<CpuExecutable> on_lanes_;
  std::map<std::int64_t, std::unique_ptr<CpuExecutable>> in_one_lane_;  // by samples
  WorkRecorder* recorder_ = nullptr;
};

}  // namespace trainer::backend::cpu
