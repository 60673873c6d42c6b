// Reports of an executable: its memory, its steps and its programs.
#include <algorithm>
#include <ostream>

#include "backend/cuda/executable/executable.h"

namespace trainer::backend::cuda {
namespace {

std::int64_t count_bytes(const std::vector<Buffer>& buffers) {
  std::size_t total = 0;
  for (const Buffer& buffer : buffers) total += buffer.bytes();
  return static_cast<std::int64_t>(total);
}

}  // namespace

MemoryReport CudaExecutable::memory() const {
  MemoryReport report;
  report.variables = variables_.bytes();
  report.slots = variables_.slot_bytes();
  report.derived = variables_.packed_weights().bytes();
  report.gradients =
      static_cast<std::int64_t>(gradients_.bytes() + accumulated_.bytes() + gathered_.bytes() +
                                other_roots_.bytes() + statistics_before_.bytes()) +
      pool_.bytes();
  report.activations = variables_.arena_bytes();
  report.staging = static_cast<std::int64_t>(idle_input_.bytes()) + count_bytes(copied_inputs_) +
                   fixed_io_.bytes();
  report.tables = static_cast<std::int64_t>(scalars_.bytes() + state_.bytes() + numbers_.bytes() +
                                            clock_.bytes()) +
                  update_.bytes();
  for (const auto& [samples, program] : programs_) {
    report.tables += count_bytes(program.constants);
    for (const ProgramStep& step : program.steps_before_update()) {
      report.workspace = std::max(report.workspace, step.workspace);
    }
  }
  return report;
}

std::vector<StepPlan> CudaExecutable::steps() const {
  std::vector<StepPlan> steps;
  if (programs_.empty()) return steps;
  for (const ProgramStep& step : programs_.rbegin()->second.steps_before_update()) {
    steps.push_back({step.name, step.implementation, step.workspace});
  }
  return steps;
}

void CudaExecutable::print(std::ostream& out) const {
  for (const auto& [samples, program] : programs_) {
    out << "program for " << samples << " samples, arena " << program.arena_bytes << " bytes\n";
    for (const ProgramStep& step : program.steps_before_update()) {
      out << "  " << step.name << ": " << step.implementation << '\n';
    }
  }
  for (const auto& [key, captured] : captured_) {
    if (!captured.graph) continue;
    out << "captured graph " << (ranks_ == nullptr ? "of a call" : "of a call of all ranks") << ", "
        << captured.calls - 1 << " times launched\n";
  }
}

}  // namespace trainer::backend::cuda
