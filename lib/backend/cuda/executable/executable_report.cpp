// Reports of an executable: its memory, its instructions and its programs.
#include <algorithm>
#include <ostream>

#include "backend/cuda/executable/executable.h"
#include "backend/cuda/kernels/counted_work.h"
#include "base/numbers/sum_tree.h"

namespace trainer::backend::cuda {
namespace {

std::int64_t count_bytes(const std::vector<Buffer>& buffers) {
  std::size_t total = 0;
  for (const Buffer& buffer : buffers) total += buffer.bytes();
  return static_cast<std::int64_t>(total);
}

// Lets instructions be added to a list while it exists.
class Listing {
 public:
  Listing(std::vector<InstructionInfo>*& place, std::vector<InstructionInfo>& instructions)
      : place_(place) {
    place_ = &instructions;
  }
  ~Listing() { place_ = nullptr; }
  Listing(const Listing&) = delete;
  Listing& operator=(const Listing&) = delete;

 private:
  std::vector<InstructionInfo>*& place_;
};

InstructionInfo describe(const Instruction& instruction) {
  return {instruction.name,  instruction.implementation, instruction.workspace,
          instruction.phase, instruction.type,           instruction.flops};
}

// `bytes` are those of the instruction's operands and of add_traffic(). They are a lower bound:
// passes that cuDNN or cuBLASLt make over memory of their own are not known.
InstructionWork make_work(const CountedWork& counted, double bytes) {
  return {counted.kernels, counted.library_calls, counted.copies, bytes};
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
  report.tables = static_cast<std::int64_t>(scalars_.bytes() + state_.bytes() + result_.bytes() +
                                            clock_.bytes()) +
                  update_.bytes();
  for (const auto& [samples, program] : programs_) {
    report.tables += count_bytes(program.constants);
    for (const Instruction& instruction : program.instructions_before_update()) {
      report.workspace = std::max(report.workspace, instruction.workspace);
    }
  }
  return report;
}

std::vector<InstructionInfo> CudaExecutable::instructions() {
  if (programs_.empty()) return {};
  if (variables_.device() == kPlannedDevice) return list_call();
  std::vector<InstructionInfo> instructions;
  for (const Instruction& instruction : programs_.rbegin()->second.instructions_before_update()) {
    instructions.push_back(describe(instruction));
  }
  return instructions;
}

void CudaExecutable::list_instruction(const Instruction& instruction, const CallContext& context) {
  CountedWork counted;
  instruction.run(context);
  InstructionInfo info = describe(instruction);
  info.work = make_work(counted, instruction.bytes);
  listed_->push_back(std::move(info));
}

// Returns the bytes of the copies of parameters, and of what the update reads and writes.
double CudaExecutable::count_update_bytes(const Call& call) {
  double bytes = 0;
  if (!updates_) return bytes;
  for (const PackedWeights::Entry* entry : packed_entries(call)) {
    if (!entry->changed_by_training) continue;
    bytes += static_cast<double>(entry->memory.bytes());
    const auto* pack = entry->make.target<PackParameters>();
    if (pack != nullptr) bytes += static_cast<double>(pack->elements()) * sizeof(float);
  }
  for (const Segment& segment : variables_.placement().flat.segments) {
    // The gradient is read; the parameter, its slots and its average are read and written.
    const int values = 3 + 2 * segment.slots + (segment.average ? 2 : 0);
    bytes += static_cast<double>(segment.count) * values * sizeof(float);
  }
  return bytes;
}

// Goes through a call as enqueue() does. Each instruction has its own count. The work outside of
// instructions (copies of parameters, update, clocks) is the last entry.
std::vector<InstructionInfo> CudaExecutable::list_call() {
  const DeviceGuard guard(variables_.device());
  const Program& any = programs_.begin()->second;
  std::vector<Buffer> memory;  // addresses that nothing touches
  const auto place = [&](const std::vector<Port>& ports) {
    std::vector<Span> spans;
    for (const Port& port : ports) {
      const std::int64_t bytes =
          port.bytes_per_sample > 0 ? options_.max_samples * port.bytes_per_sample : port.bytes;
      memory.push_back(allocate_device(variables_.device(), static_cast<std::size_t>(bytes)));
      spans.push_back(memory.back().span());
    }
    return spans;
  };
  const std::int64_t all = max_all_samples(options_, rank_count());
  const std::int64_t leaves = options_.reduction.micro_batches;
  Call call;
  call.samples = options_.reduction.ordered && updates_
                     ? rank_samples(all, leaves, rank_count(), rank()).count
                     : options_.max_samples;
  call.inputs = place(any.inputs);
  call.outputs.resize(any.outputs.size());  // the engine takes the result alone
  for (const int output : {options_.result_outputs.loss, options_.result_outputs.rank,
                           options_.result_outputs.penalty}) {
    if (output < 0) continue;
    call.outputs[static_cast<std::size_t>(output)] =
        place({any.outputs[static_cast<std::size_t>(output)]}).front();
  }
  call.parts = make_parts(call.samples, all);
  call.apply = call.has_result = true;
  std::vector<InstructionInfo> instructions;
  CountedWork around;
  {
    const Listing listing(listed_, instructions);
    enqueue(call);
  }
  InstructionInfo update{"update", "copies of parameters, update, numbers and clocks"};
  update.phase = graph::Phase::kUpdate;
  update.work = make_work(around, count_update_bytes(call));
  instructions.push_back(std::move(update));
  return instructions;
}

void CudaExecutable::print(std::ostream& out) const {
  for (const auto& [samples, program] : programs_) {
    out << "program for " << samples << " samples, arena " << program.arena_bytes << " bytes\n";
    for (const Instruction& instruction : program.instructions_before_update()) {
      out << "  " << instruction.name << ": " << instruction.implementation << '\n';
    }
  }
  for (const auto& [key, captured] : captured_) {
    if (!captured.graph) continue;
    out << "captured graph " << (ranks_ == nullptr ? "of a call" : "of a call of all ranks") << ", "
        << captured.calls - 1 << " times launched\n";
  }
}

}  // namespace trainer::backend::cuda
