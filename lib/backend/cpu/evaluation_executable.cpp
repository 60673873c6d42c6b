#include "backend/cpu/evaluation_executable.h"

#include <utility>

#include "backend/cpu/lanes/lanes.h"

namespace trainer::backend::cpu {

EvaluationExecutable::EvaluationExecutable(int lanes, int threads, std::int64_t max_samples,
                                           Compile compile, ReadThreadTimes read_times)
    : lanes_(lanes),
      threads_(threads),
      max_samples_(max_samples),
      compile_(std::move(compile)),
      read_times_(std::move(read_times)) {
  const ThreadTimes begin = read_times_();
  first_ = compile_(is_short(max_samples) ? 1 : lanes, threads, max_samples);
  form_ = OneSampleForm(read_times_() - begin);
}

bool EvaluationExecutable::is_short(std::int64_t samples) const {
  return runs_in_one_lane(samples, lanes_, threads_);
}

CpuExecutable& EvaluationExecutable::program(std::int64_t samples) {
  const bool one_thread = runs_on_one_thread(samples);
  if (!one_thread && (samples == max_samples_ || !is_short(samples))) return *first_;
  std::unique_ptr<CpuExecutable>& program = one_thread ? on_one_thread_ : in_one_lane_[samples];
  if (!program) {
    program = compile_(1, one_thread ? 1 : threads_, samples);
    program->record(recorder_);
  }
  return *program;
}

void EvaluationExecutable::launch(const Bindings& bindings, const Scalars& scalars,
                                  Stream& stream) {
  CpuExecutable& chosen = program(bindings.samples);
  const ThreadTimes begin = read_times_();
  chosen.launch(bindings, scalars, stream);
  if (bindings.samples == 1) form_.record(read_times_() - begin);
}

std::vector<CpuExecutable*> EvaluationExecutable::programs() const {
  std::vector<CpuExecutable*> programs{first_.get()};
  for (const auto& [samples, program] : in_one_lane_) programs.push_back(program.get());
  if (on_one_thread_) programs.push_back(on_one_thread_.get());
  return programs;
}

void EvaluationExecutable::print(std::ostream& out) const {
  for (const CpuExecutable* program : programs()) program->print(out);
}

bool EvaluationExecutable::record(WorkRecorder* recorder) {
  recorder_ = recorder;
  for (CpuExecutable* program : programs()) program->record(recorder);
  return true;
}

}  // namespace trainer::backend::cpu
