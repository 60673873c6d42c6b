#include "backend/cpu/evaluation_executable.h"

#include "backend/cpu/lanes/lanes.h"

namespace trainer::backend::cpu {

CpuExecutable& EvaluationExecutable::program(std::int64_t samples) {
  if (!runs_in_one_lane(samples, lanes_, threads_)) return *on_lanes_;
  std::unique_ptr<CpuExecutable>& program = in_one_lane_[samples];
  if (!program) {
    program = compile_(1, samples);
    program->record(recorder_);
  }
  return *program;
}

void EvaluationExecutable::print(std::ostream& out) const {
  on_lanes_->print(out);
  for (const auto& [samples, program] : in_one_lane_) program->print(out);
}

bool EvaluationExecutable::record(WorkRecorder* recorder) {
  recorder_ = recorder;
  for (const auto& [samples, program] : in_one_lane_) program->record(recorder);
  return on_lanes_->record(recorder);
}

}  // namespace trainer::backend::cpu
