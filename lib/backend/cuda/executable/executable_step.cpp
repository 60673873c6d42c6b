// What a call enqueues: the programs of its parts, the sum over the ranks, the update.
#include <algorithm>
#include <optional>

#include "backend/cuda/executable/executable.h"
#include "backend/cuda/kernels/elementwise.h"
#include "backend/cuda/kernels/step/exchange.h"
#include "backend/cuda/kernels/step/result.h"
#include "backend/cuda/telemetry/ranges.h"
#include "base/error.h"
#include "base/numbers/sum_tree.h"

namespace trainer::backend::cuda {
namespace {

ClockPhase clock_phase(graph::Phase phase) {
  return phase < graph::Phase::kBackward ? ClockPhase::kForward : ClockPhase::kBackward;
}

WorkRecord make_record(WorkRecord::Kind kind) {
  WorkRecord record;
  record.kind = kind;
  return record;
}

}  // namespace

// An error of a kernel is reported by a later call, unless the host waits for each op.
void CudaExecutable::enqueue_instruction(const Instruction& instruction,
                                         const CallContext& context) {
  if (listed_ != nullptr) return list_instruction(instruction, context);
  const Range layer(instruction.name);
  WorkRecord record = make_record(WorkRecord::Kind::kLayer);
  record.layer = instruction.name;
  record.implementation = instruction.implementation;
  record.phase = instruction.phase;
  const TimedPiece piece(timed(), record, context.stream);
  instruction.run(context);
  if (!machine_.debugging.wait_per_op) return;
  check(cudaStreamSynchronize(context.stream),
        concat("layer ", instruction.name, ", ", spell(instruction.phase), ", ",
               instruction.implementation)
            .c_str());
  if (ranks_ != nullptr) ranks_->check();
}

void CudaExecutable::enqueue(const Call& call) {
  if (updates_) {
    const TimedPiece piece(timed(), make_record(WorkRecord::Kind::kPackWeights), call.stream);
    std::vector<PackedWeights::Entry*> changed = packed_entries(call);
    std::erase_if(changed, [](const auto* entry) { return !entry->changed_by_training; });
    make_entries(changed, call.stream);
  }
  last_program_ = nullptr;
  run_parts(call);
  if (!updates_) {
    return stop_clock(clock(), ClockPhase::kForward, nullptr, 0, result(), call.stream);
  }
  settle_finite(result(), scalars(), state(), call.stream);
  move_statistics(call);
  if (ranks_ != nullptr) {
    write_trailer(state(), variables_.statistics(), trailer_statistics_, trailer(), call.stream);
  }
  if (reduces(call)) {
    lap(ClockPhase::kUpdate, call);
    reduce(call);
    lap(ClockPhase::kAllReduce, call);
  }
  add_earlier_calls(call);
  decide_and_update(call);
  const std::size_t spans = overlaps(call) ? buckets_.size() : 0;
  stop_clock(clock(), ClockPhase::kUpdate, bucket_spans(), static_cast<int>(spans), result(),
             call.stream);
}

bool CudaExecutable::reduces(const Call& call) const {
  return ranks_ != nullptr && (call.apply || options_.reduction.ordered);
}

// Buckets are reduced while backward runs where nothing is added to the gradients after it. Batch
// statistics would wait for the buckets before them: a collective does one call at a time.
bool CudaExecutable::overlaps(const Call& call) const {
  return reduces(call) && !buckets_.empty() && !options_.reduction.ordered && !call.accumulate &&
         options_.reduction.statistics == nullptr;
}

// Returns the place of root i of this rank's leaves. The trailers of all roots but the first stay
// zero.
float* CudaExecutable::root(std::size_t i) {
  if (i == 0) return gradients();
  const std::int64_t stride = variables_.flat_count() + trailer_size_;
  return pointer_to<float>(other_roots_.span()) + static_cast<std::int64_t>(i - 1) * stride;
}

void CudaExecutable::run_parts(const Call& call) {
  const std::int64_t count = variables_.flat_count();
  if (call.parts.empty()) {
    add_part_numbers(call, {}, true, nullptr);
    if (!updates_) return;
    if (call.idle) run_idle(call);
    if (!call.accumulate) fill_zeros(gradients(), count * sizeof(float), call.stream);
    return;
  }
  if (!updates_) return run_part(call, call.parts[0], true, nullptr);
  if (!options_.reduction.ordered && !call.accumulate) {
    return run_part(call, call.parts[0], true, gradients());
  }
  const bool ordered = options_.reduction.ordered;
  const auto first =
      std::ranges::find_if(call.parts, [](const Part& part) { return part.count > 0; });
  const std::int64_t first_part = first - call.parts.begin();  // the one that has the penalty
  const std::int64_t first_leaf = ordered ? leaves().first : 0;
  const std::vector<float*> sums = sum_in_tree(
      first_leaf, first_leaf + std::ssize(call.parts), count, pool_,
      [&](std::int64_t leaf, float* to) {
        const std::int64_t i = leaf - first_leaf;
        const Part& part = call.parts[i];
        if (part.count > 0) return run_part(call, part, i == first_part, to);
        if (i == 0) add_part_numbers(call, part, true, nullptr);
        fill_zeros(to, count * sizeof(float), call.stream);
      },
      call.stream);
  for (std::size_t i = 0; i < sums.size(); ++i) {
    accumulate(sums[i], root(i), ordered, count, call.stream);
    pool_.give_back(sums[i]);
  }
  lap(ClockPhase::kBackward, call);
}

// Where a part's inputs lie: in the caller's memory, or in a copy, where the program is for more
// samples or the part does not begin where kernels and libraries may count on whole vectors.
std::vector<std::byte*> CudaExecutable::place_inputs(const Call& call, const Part& part,
                                                     const Program& program) {
  std::vector<std::byte*> inputs;
  for (std::size_t i = 0; i < program.inputs.size(); ++i) {
    const Port& port = program.inputs[i];
    std::byte* at = nullptr;
    if (port.buffer >= 0) {
      at = input_at(call, part, i, port);
      if (part.count != program.samples || !is_aligned(at)) {
        std::byte* copied = copied_inputs_[i].span().address;
        copy_on_device(copied, at, part.count * port.bytes_per_sample, call.stream);
        at = copied;
      }
    }
    inputs.push_back(at);
  }
  return inputs;
}

void CudaExecutable::run_part(const Call& call, const Part& part, bool first, float* to) {
  const Program& lowered = program(part.count);
  pointers_ = lowered.make_pointers(place_inputs(call, part, lowered), to);
  last_program_ = &lowered;
  run_instructions(call, lowered,
                   {{pointers_.data()}, call.stream, part.first, scalars(), state(), true});
  copy_outputs(call, part, first, lowered);
  add_part_numbers(call, part, first, &lowered);
}

// Takes part in the other ranks' batch statistics with one sample that counts as none.
void CudaExecutable::run_idle(const Call& call) {
  const Program& lowered = program(1);
  const std::vector<std::byte*> inputs(lowered.inputs.size(), idle_input_.span().address);
  float* discarded = pool_.take();
  pointers_ = lowered.make_pointers(inputs, discarded);
  run_instructions(call, lowered, {{pointers_.data()}, call.stream, 0, scalars(), state(), false});
  pool_.give_back(discarded);
  last_program_ = &lowered;
}

void CudaExecutable::run_instructions(const Call& call, const Program& lowered,
                                      const CallContext& context) {
  std::vector<std::pair<int, std::size_t>> ready;
  if (overlaps(call) && context.counted) {
    ready = find_bucket_ends(lowered.gradient_writers, buckets_);
    ready.pop_back();  // the last bucket goes with the trailer
  }
  std::size_t next = 0;
  std::optional<Range> phase;
  const std::span instructions = lowered.instructions_before_update();
  for (std::size_t i = 0; i < instructions.size(); ++i) {
    const Instruction& instruction = instructions[i];
    if (i == 0 || instruction.phase != instructions[i - 1].phase) {
      phase.reset();  // ranges of a thread nest
      phase.emplace(std::string(spell(instruction.phase)));
    }
    enqueue_instruction(instruction, context);
    for (; next < ready.size() && ready[next].first <= static_cast<int>(i); ++next) {
      reduce_bucket(ready[next].second, call.stream);
    }
    const bool last = i + 1 == instructions.size();
    if (last || clock_phase(instructions[i + 1].phase) != clock_phase(instruction.phase)) {
      lap(clock_phase(instruction.phase), call);
    }
  }
}

void CudaExecutable::copy_outputs(const Call& call, const Part& part, bool first,
                                  const Program& lowered) const {
  for (std::size_t i = 0; i < lowered.outputs.size() && i < call.outputs.size(); ++i) {
    const Port& port = lowered.outputs[i];
    if (!call.outputs[i] || (port.bytes_per_sample == 0 && !first)) continue;
    const std::int64_t bytes =
        port.bytes_per_sample > 0 ? part.count * port.bytes_per_sample : port.bytes;
    copy_on_device(call.outputs[i].address + part.first * port.bytes_per_sample,
                   pointers_[port.buffer], bytes, call.stream);
  }
}

void CudaExecutable::add_part_numbers(const Call& call, const Part& part, bool first,
                                      const Program* lowered) {
  const auto output = [&](int i) -> std::byte* {
    if (lowered == nullptr || i < 0) return nullptr;
    const BufferId buffer = lowered->outputs[i].buffer;
    return pointers_[buffer];
  };
  const CompileOptions::ResultOutputs& outputs = options_.result_outputs;
  std::int64_t losses = part.count;
  if (lowered != nullptr && outputs.loss >= 0) {
    const Port& port = lowered->outputs[outputs.loss];
    losses *= port.bytes_per_sample / static_cast<std::int64_t>(sizeof(float));
  }
  add_to_result(reinterpret_cast<const float*>(output(outputs.loss)),
                reinterpret_cast<const std::int32_t*>(output(outputs.rank)),
                reinterpret_cast<const float*>(output(outputs.penalty)), losses, first, result(),
                call.stream);
}

void CudaExecutable::move_statistics(const Call& call) {
  const std::size_t count = variables_.placement().flat.statistics;
  if (!call.accumulate) {
    copy_on_device(statistics_before_.span().address, variables_.statistics(),
                   count * sizeof(float), call.stream);
  }
  if (last_program_ == nullptr) return;
  const CallContext context{{pointers_.data()}, call.stream, 0, scalars(), state(), true};
  for (const Instruction& instruction : last_program_->update_instructions())
    enqueue_instruction(instruction, context);
}

void CudaExecutable::reduce_bucket(std::size_t bucket, cudaStream_t stream) {
  const Range range("reduce bucket");
  const bool last = bucket + 1 == buckets_.size();
  const Slice slice = buckets_[bucket];
  record_event(bucket_events_[bucket], stream);
  wait_for_event(reduction_stream_.get(), bucket_events_[bucket]);
  WorkRecord record = make_record(WorkRecord::Kind::kAllReduce);
  record.thread = kReductionThread;
  record.bytes = slice.count() * static_cast<std::int64_t>(sizeof(float));
  const TimedPiece piece(timed(), record, reduction_stream_.get());
  ClockSpan& span = bucket_spans()[bucket];  // an address, which the host does not read
  mark_time(&span.begin, reduction_stream_.get());
  ranks_->all_reduce(gradients() + slice.first, slice.count() + (last ? trailer_size_ : 0),
                     reduction_stream_.get());
  mark_time(&span.end, reduction_stream_.get());
}

void CudaExecutable::reduce(const Call& call) {
  const Range range("reduce");
  WorkRecord record = make_record(WorkRecord::Kind::kAllReduce);
  const std::int64_t count = variables_.flat_count() + trailer_size_;
  record.bytes = count * static_cast<std::int64_t>(sizeof(float));
  const TimedPiece piece(timed(), record, call.stream);
  if (options_.reduction.ordered) {
    std::vector<float*> roots;
    const Partition part = leaves();
    for (std::size_t i = 0; i < root_count(part.first, part.first + part.count); ++i) {
      roots.push_back(root(i));
    }
    return sum_ranks_in_tree(*ranks_, options_.reduction.micro_batches, roots,
                             pointer_to<float>(gathered_.span()), count, call.stream);
  }
  if (!overlaps(call)) return ranks_->all_reduce(gradients(), count, call.stream);
  // A rank without samples has not reduced the buckets yet that others reduced during backward.
  const std::size_t first = call.parts.empty() ? 0 : buckets_.size() - 1;
  for (std::size_t i = first; i < buckets_.size(); ++i) reduce_bucket(i, call.stream);
  record_event(reduced_, reduction_stream_.get());
  wait_for_event(call.stream, reduced_);
}

// An ordered sum is over the ranks of each call first, then over the calls.
void CudaExecutable::add_earlier_calls(const Call& call) {
  if (!options_.reduction.ordered || (call.apply && !call.accumulate)) return;
  const std::int64_t count = variables_.flat_count();
  auto* earlier = pointer_to<float>(accumulated_.span());
  accumulate(gradients(), earlier, !call.accumulate, count, call.stream);
  if (!call.accumulate) return;
  copy_on_device(gradients(), earlier, count * sizeof(float), call.stream);
}

void CudaExecutable::decide_and_update(const Call& call) {
  const Range range("update");
  const TimedPiece piece(timed(), make_record(WorkRecord::Kind::kUpdate), call.stream);
  const bool reduced = reduces(call);
  if (reduced) {
    read_trailer(trailer(), trailer_statistics_ > 0, pointer_to<float>(statistics_before_.span()),
                 variables_.statistics(), variables_.placement().flat.statistics, state(),
                 call.stream);
  }
  const std::int64_t count = variables_.flat_count();
  const bool scaled = options_.loss_scale.dynamic;
  if (scaled && call.apply) check_gradients(gradients(), count, state(), call.stream);
  decide_update(reduced ? trailer() : nullptr, scaled, scalars(), state(), result(), call.stream);
  if (call.apply) update_.enqueue(gradients(), scalars(), state(), result(), call.stream);
}

}  // namespace trainer::backend::cuda
