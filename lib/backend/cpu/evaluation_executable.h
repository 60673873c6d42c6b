// A program that does not train, on all lanes or in one lane, by the size of a call.
// Reasons: lib/decisions/backend.md#short-calls-run-in-one-lane.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "backend/cpu/executable.h"
#include "backend/cpu/lanes/one_sample_form.h"

namespace trainer::backend::cpu {

// Calls with a sample per lane run on the lanes, and calls of fewer samples in one lane of all
// threads where runs_in_one_lane(). One sample runs on the calling thread alone while other
// programs take its core. A program of one lane is compiled when a call first needs it. All
// programs share packed weights and arenas.
class EvaluationExecutable final : public Executable {
 public:
  // Compiles the program of calls of at most `samples` samples on so many lanes, which divide the
  // threads.
  using Compile =
      std::function<std::unique_ptr<CpuExecutable>(int lanes, int threads, std::int64_t samples)>;

  EvaluationExecutable(int lanes, int threads, std::int64_t max_samples, Compile compile,
                       ReadThreadTimes read_times);

  void launch(const Bindings& bindings, const Scalars& scalars, Stream& stream) override;
  void prepare(std::int64_t samples, std::int64_t all_samples) override {
    program(samples).prepare(samples, all_samples);
  }
  Gradient gradient(Stream& stream) override { return first_->gradient(stream); }
  void read_gradient(Stream& stream, std::int64_t first, std::span<float> to) override {
    first_->read_gradient(stream, first, to);
  }
  MemoryReport memory() const override { return first_->memory(); }
  void print(std::ostream& out) const override;
  bool record(WorkRecorder* recorder) override;

 private:
  bool is_short(std::int64_t samples) const;
  bool runs_on_one_thread(std::int64_t samples) const {
    return samples == 1 && form_.form() == OneSampleForm::Form::kOneThread;
  }
  CpuExecutable& program(std::int64_t samples);
  std::vector<CpuExecutable*> programs() const;

  int lanes_, threads_;
  std::int64_t max_samples_;
  Compile compile_;
  ReadThreadTimes read_times_;
  std::unique_ptr<CpuExecutable> first_;  // for calls of max_samples_ samples
  OneSampleForm form_;
  std::map<std::int64_t, std::unique_ptr<CpuExecutable>> in_one_lane_;  // by samples
  std::unique_ptr<CpuExecutable> on_one_thread_;
  WorkRecorder* recorder_ = nullptr;
};

}  // namespace trainer::backend::cpu
